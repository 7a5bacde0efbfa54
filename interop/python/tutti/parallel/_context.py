"""Context parallelism: long sequences of which every rank has a part, and attention over the whole of them.

A sequence is the first dimension. Its length need not divide by the ranks; nothing is padded. `cu_seqlens` are
FlashAttention's: 0, the first sample's end, ..., the sequence's length, where samples that do not see each other lie
one behind the other. `placement` says who has what: "zigzag", for causal masks, gives a ring's rank an early and a late
part of each sample, "contiguous", for windows, gives it one part of the whole.
"""

from __future__ import annotations

from typing import Any, Sequence

from .. import _parallel
from .._errors import InvalidArgumentError
from ._compute import compute_for, empty, is_torch, stream_of
from ._layers import _plain, divided
from ._state import Group, current

_attentions: dict[Any, _parallel.AttentionCompute] = {}


def _attention_for(array: Any) -> _parallel.AttentionCompute:
    """One for each place where tensors are; it lives as long as the process."""
    place = array.device if is_torch(array) else None
    if place not in _attentions:
        if place is None:
            _attentions[place] = _parallel.numpy_attention(compute_for(array))
        else:
            from ._torch_attention import TorchAttention
            _attentions[place] = _parallel.torch_attention(TorchAttention(), compute_for(array))
    return _attentions[place]


def _borders(sequence: int, cu_seqlens: Any) -> list[int]:
    if cu_seqlens is None:
        return [0, sequence]
    return cu_seqlens.tolist() if hasattr(cu_seqlens, "tolist") else list(cu_seqlens)


# The Ulysses exchange.
def _scatter_heads(group: Group, x: Any, sequence: int | None) -> Any:
    x = _plain(x)
    rows = x.shape[0] * group.size if sequence is None else sequence
    output = empty(x, (rows, x.shape[1], divided("the number of heads", x.shape[2], "the group's size", group.size),
                       *x.shape[3:]))
    _parallel.scatter_heads_gather_sequence(group, compute_for(x), x, output)
    return output


def _gather_heads(group: Group, x: Any) -> Any:
    x = _plain(x)
    rows = len(_parallel.context_positions("contiguous", [0, x.shape[0]], group.rank, group.size, 0, 1))
    output = empty(x, (rows, x.shape[1], x.shape[2] * group.size, *x.shape[3:]))
    _parallel.scatter_sequence_gather_heads(group, compute_for(x), x, output)
    return output


def scatter_heads_gather_sequence(x: Any, *, sequence: int | None = None, group: Group | None = None) -> Any:
    """The whole sequence with this rank's part of the heads, for attention, of this rank's part with all heads.

    x [rows, batch, heads, ..], float32 or bfloat16; the result is [sequence, batch, heads / size, ..]. sequence: its
    length, if the ranks do not divide it: then rows are those of torch.tensor_split. group: the Ulysses-parallel one of
    tutti.parallel.initialize() unless it is given.
    """
    group = current().ulysses if group is None else group
    if not is_torch(x):
        return _scatter_heads(group, x, sequence)
    from ._autograd import Region
    return Region.apply(x, group, lambda group, x: _scatter_heads(group, x, sequence), _gather_heads)


def scatter_sequence_gather_heads(x: Any, *, group: Group | None = None) -> Any:
    """The way back: x [sequence, batch, heads / size, ..]; the result is [rows, batch, heads, ..]."""
    group = current().ulysses if group is None else group
    if not is_torch(x):
        return _gather_heads(group, x)
    from ._autograd import Region
    return Region.apply(x, group, _gather_heads, lambda group, grad: _scatter_heads(group, grad, x.shape[0]))


# Who has what.
def _positions_of(member: int, placement: str, borders: list[int]) -> list[int]:
    """Of a rank of the context-parallel group."""
    parallel = current()
    layout, rank = parallel._layouts.context, parallel.context.ranks[member]
    return _parallel.context_positions(placement, borders, layout.coordinate(rank, "ulysses"), parallel.ulysses.size,
                                       layout.coordinate(rank, "ring"), parallel.ring.size)


def positions(sequence: int | None = None, placement: str = "zigzag", *, cu_seqlens: Any = None) -> list[int]:
    """This rank's positions of a sequence of that length, ascending, for position embeddings and targets."""
    if sequence is None and cu_seqlens is None:
        raise InvalidArgumentError("sequence and cu_seqlens are both None: one must say how long the sequence is")
    return _positions_of(current().context.rank, placement, _borders(sequence or 0, cu_seqlens))


def _index(like: Any, numbers: list[int]) -> Any:
    if is_torch(like):
        import torch
        return torch.tensor(numbers, dtype=torch.int64, device=like.device)
    import numpy
    return numpy.array(numbers, numpy.int64)


def split_sequence(x: Any, placement: str = "zigzag", *, cu_seqlens: Any = None, dim: int = 0) -> Any:
    """This rank's part, along `dim`, of whole sequences that every rank has. Sends nothing."""
    index = _index(x, positions(x.shape[dim], placement, cu_seqlens=cu_seqlens))
    return x.index_select(dim, index) if is_torch(x) else x.take(index, dim)


def gather_sequence(x: Any, placement: str = "zigzag", *, sequence: int | None = None, cu_seqlens: Any = None,
                    dim: int = 0) -> Any:
    """The whole sequences, along `dim`, of every rank's part, in the order of positions; no gradient reaches x.

    sequence: their length, if there are no cu_seqlens and the ranks do not divide it.
    """
    group = current().context
    rows = x.shape[dim]
    borders = _borders(rows * group.size if sequence is None else sequence, cu_seqlens)
    parts = [_positions_of(member, placement, borders) for member in range(group.size)]
    if len(parts[group.rank]) != rows:
        raise InvalidArgumentError(
            f"dimension {dim} of x is {rows}, but this rank has {len(parts[group.rank])} positions")
    front = _plain(x.detach().movedim(dim, 0) if is_torch(x) else _moved(x, dim, 0))
    received, whole = (empty(front, (borders[-1], *front.shape[1:])) for _ in range(2))
    row = 1
    for extent in front.shape[1:]:
        row *= extent
    group.all_gather_v(front, [len(part) * row for part in parts], received, stream_of(front))
    whole[_index(x, [position for part in parts for position in part])] = received
    return whole.movedim(0, dim) if is_torch(x) else _moved(whole, 0, dim)


def _moved(x: Any, source: int, to: int) -> Any:
    import numpy
    return numpy.moveaxis(x, source, to)


def mix_heads(q: Any, k: Any, v: Any) -> Any:
    """Queries [rows, batch, heads, width], and keys and values [rows, batch, kv_heads, width], as Megatron mixes them.

    The result is [rows, batch, kv_heads, heads / kv_heads + 2, width]: a group of queries, then the key and the value
    that they see.
    """
    kv_heads = k.shape[2]
    heads = divided("the number of heads", q.shape[2], "kv_heads", kv_heads)
    parts = [q.reshape(*q.shape[:2], kv_heads, heads, q.shape[3]), k[:, :, :, None], v[:, :, :, None]]
    if is_torch(q):
        import torch
        return torch.cat(parts, 3)
    import numpy
    return numpy.concatenate(parts, 3)


class ContextParallelAttention:
    """Attention over sequences of which every rank has a part, and its gradient: for programs without autograd.

    sequence: the length of the whole, if there are no cu_seqlens and the ranks do not divide it. causal: a position
    sees those up to its own; window: only the last so many of them, its own included; 0: all.

    forward and backward are collective over the context-parallel group: heads are exchanged inside its Ulysses groups,
    and keys and values go round its rings.
    """

    def __init__(self, *, sequence: int | None = None, cu_seqlens: Sequence[int] | None = None, causal: bool = True,
                 window: int = 0, placement: str = "zigzag") -> None:
        self._sequence, self._cu_seqlens = sequence, cu_seqlens
        self._causal, self._window, self._placement = causal, window, placement

    def forward(self, qkv: Any) -> Any:
        """qkv [rows, batch, kv_heads, heads / kv_heads + 2, width] (mix_heads), float32 or bfloat16, of this rank's
        positions; the result is [rows, batch, heads, width].

        Raises on every rank, naming the quantity and both values, where ranks differ or heads do not divide, before
        tensors are sent.
        """
        parallel, qkv = current(), _plain(qkv)
        rows = qkv.shape[0] * parallel.context.size if self._sequence is None else self._sequence
        borders = _borders(rows, self._cu_seqlens)
        self._attention = _parallel.ContextAttention(
            parallel.ulysses, parallel.ring, _attention_for(qkv), qkv, borders[-1] if self._sequence is None else rows,
            borders, self._causal, self._window, self._placement)
        out = empty(qkv, (*qkv.shape[:2], qkv.shape[2] * (qkv.shape[3] - 2), qkv.shape[4]))
        self._attention.forward(qkv, out)
        return out

    def backward(self, qkv: Any, out: Any, grad_out: Any) -> Any:
        """The gradient of qkv, for which forward returned out."""
        qkv = _plain(qkv)
        grad_qkv = empty(qkv, qkv.shape)
        self._attention.backward(qkv, _plain(out), _plain(grad_out), grad_qkv)
        return grad_qkv


def context_parallel_attention(qkv: Any, *, sequence: int | None = None, cu_seqlens: Sequence[int] | None = None,
                               causal: bool = True, window: int = 0, placement: str = "zigzag") -> Any:
    """ContextParallelAttention's forward, which autograd knows."""
    attention = ContextParallelAttention(sequence=sequence, cu_seqlens=cu_seqlens, causal=causal, window=window,
                                         placement=placement)
    if not is_torch(qkv):
        return attention.forward(qkv)
    from ._autograd import AttentionFunction
    return AttentionFunction.apply(qkv, attention)
