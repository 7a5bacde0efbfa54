# mypy: disable-error-code="misc,no-untyped-call,no-any-return"
"""What inference adds: the cache of keys and values, and one forward pass through a pipeline's stages."""

from __future__ import annotations

from typing import Callable

import torch

from .._errors import InvalidArgumentError
from ._compute import stream_of
from ._layers import divided
from ._state import Group, current


class KeyValueCache:
    """The keys and values of the tokens that a model has seen, of several sequences at a time, each of which has a slot.

    It is divided as attention is: by heads over the tensor-parallel group, whose ranks have kv_heads / size each, and by
    tokens over the context-parallel group, whose ranks take tokens in turn. layers: those of this rank. length: most
    tokens of a sequence. width: of a head.

        cache.place(slots, starts)         before each forward pass: where its tokens belong
        model(ids, cache)                  layer i calls cache.layer(i).attend(...)
    """

    def __init__(self, layers: int, slots: int, length: int, kv_heads: int, width: int, *,
                 dtype: torch.dtype = torch.float32, device: torch.device | str | None = None,
                 tensor: Group | None = None, context: Group | None = None) -> None:
        tensor = current().tensor if tensor is None else tensor
        self.context = current().context if context is None else context
        heads = divided("the number of key-value heads", kv_heads, "tensor_parallel_size", tensor.size)
        rows = -(-length // self.context.size)
        self.length = length
        self.memory = torch.zeros(layers, 2, slots, rows, heads, width, dtype=dtype, device=device)

    def place(self, slots: torch.Tensor, starts: torch.Tensor) -> None:
        """The next pass has sequences in these slots [batch], whose first tokens have these positions [batch]."""
        self.slots, self.starts = slots, starts

    def layer(self, number: int) -> LayerCache:
        """The part of the rank's layer `number`, from 0."""
        return LayerCache(self, self.memory[number])


class LayerCache:
    """One layer's part of a cache."""

    def __init__(self, cache: KeyValueCache, memory: torch.Tensor) -> None:
        self._cache, (self._keys, self._values) = cache, memory

    def attend(self, mixed: torch.Tensor) -> torch.Tensor:
        """Adds the keys and values of tokens, and returns what their queries see.

        mixed [tokens, batch, kv_heads, queries + 2, width]: each key-value head's queries, its key and its value, of the
        same number of tokens of each sequence. The result is [tokens, batch, kv_heads, queries, width].
        """
        cache, context = self._cache, self._cache.context
        longest = int(cache.starts.max()) + mixed.shape[0] if mixed.shape[1] else 0  # a pass without sequences
        if longest > cache.length:
            raise InvalidArgumentError(f"a sequence would have {longest} tokens, but the cache has room for {cache.length}")
        queries, keys, values = mixed[..., :-2, :], mixed[..., -2, :], mixed[..., -1, :]
        tokens = torch.arange(mixed.shape[0], device=mixed.device)
        positions = cache.starts + tokens[:, None]  # [tokens, batch]
        mine = (positions % context.size == context.rank).nonzero(as_tuple=True)
        rows = positions[mine] // context.size
        slots = cache.slots[mine[1]]
        self._keys[slots, rows] = keys[mine]
        self._values[slots, rows] = values[mine]

        seen = max(0, -(-(longest - context.rank) // context.size))
        held = torch.arange(seen, device=mixed.device) * context.size + context.rank  # positions of the rows
        scores = torch.einsum("sbhgd,blhd->bhgsl", queries, self._keys[cache.slots, :seen]) * mixed.shape[-1] ** -0.5
        hidden = held > positions.t()[:, None, None, :, None]
        scores = scores.masked_fill(hidden, -torch.inf)
        if context.size == 1:
            weights = scores.softmax(-1)
            return torch.einsum("bhgsl,blhd->sbhgd", weights, self._values[cache.slots, :seen])
        # The softmax of all ranks' rows: by the largest score of all, each rank's sums add up.
        maxima = (scores.amax(-1) if seen else scores.new_full(scores.shape[:-1], -torch.inf)).contiguous()
        context.all_reduce(maxima, maxima, "max", stream_of(maxima))
        weights = (scores - maxima[..., None]).exp()
        sums = torch.einsum("bhgsl,blhd->sbhgd", weights, self._values[cache.slots, :seen])
        both = torch.cat([sums, weights.sum(-1).permute(3, 0, 1, 2)[..., None]], -1).contiguous()
        context.all_reduce(both, both, "sum", stream_of(both))
        return both[..., :-1] / both[..., -1:]


def forward_through(stage: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, shape: tuple[int, ...],
                    group: Group | None = None) -> torch.Tensor | None:
    """One forward pass: the first stage computes with x, the others with what the stage before gives, of this shape.

    x: on the first stage the input; on the others only its type and place count. Returns the last stage's result; None on
    the others.
    """
    group = current().pipeline if group is None else group
    if group.rank > 0:
        x = torch.empty(shape, dtype=x.dtype, device=x.device)
        group.exchange([], [(x, group.rank - 1)], stream_of(x))
    y = stage(x)
    if group.rank == group.size - 1:
        return y
    y = y.contiguous()
    group.exchange([(y, group.rank + 1)], [], stream_of(y))
    return None
