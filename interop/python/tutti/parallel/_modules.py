"""Tensor and sequence parallelism as PyTorch's modules, in Megatron's names."""

# mypy: disable-error-code="misc,no-untyped-call,no-any-return"
from __future__ import annotations

from typing import Callable

import torch
from torch import nn

from ._inference import LayerCache
from ._context import context_parallel_attention
from ._division import divided_parameter
from ._layers import (column_parallel_linear, copy_to_tensor_model_parallel_region, divided, row_parallel_linear,
                      vocab_parallel_embedding)
from ._state import Group, current

Init = Callable[[torch.Tensor], object]


def _group(group: Group | None) -> Group:
    return current().tensor if group is None else group


def _part_of(whole: torch.Tensor, dim: int, group: Group) -> nn.Parameter:
    """This rank's part of a weight. All ranks make the whole one, so that a seed gives one model, however it is split."""
    part = divided("a weight's dimension", whole.shape[dim], "tensor_parallel_size", group.size)
    return divided_parameter(whole, dim, group, [part] * group.size)


def _default_init(weight: torch.Tensor) -> object:
    return nn.init.normal_(weight, std=0.02)  # as Megatron and GPT-2


class ColumnParallelLinear(nn.Module):
    """A linear layer whose outputs are divided over a group. sequence_parallel: the input is this rank's part of the sequence."""

    def __init__(self, input_size: int, output_size: int, bias: bool = True, *, gather_output: bool = False,
                 sequence_parallel: bool = False, group: Group | None = None, init_method: Init = _default_init) -> None:
        super().__init__()
        self.group, self.gather_output, self.sequence_parallel = _group(group), gather_output, sequence_parallel
        whole = torch.empty(output_size, input_size)
        init_method(whole)
        self.weight = _part_of(whole, 0, self.group)
        self.bias = _part_of(torch.zeros(output_size), 0, self.group) if bias else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return column_parallel_linear(x, self.weight, self.bias, gather_output=self.gather_output,
                                      sequence_parallel=self.sequence_parallel, group=self.group)


class RowParallelLinear(nn.Module):
    """A linear layer whose inputs are divided over a group. sequence_parallel: the output is this rank's part of the sequence."""

    def __init__(self, input_size: int, output_size: int, bias: bool = True, *, input_is_parallel: bool = True,
                 sequence_parallel: bool = False, group: Group | None = None, init_method: Init = _default_init) -> None:
        super().__init__()
        self.group, self.input_is_parallel = _group(group), input_is_parallel
        self.sequence_parallel = sequence_parallel
        whole = torch.empty(output_size, input_size)
        init_method(whole)
        self.weight = _part_of(whole, 1, self.group)
        self.bias = nn.Parameter(torch.zeros(output_size)) if bias else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return row_parallel_linear(x, self.weight, self.bias, input_is_parallel=self.input_is_parallel,
                                   sequence_parallel=self.sequence_parallel, group=self.group)


class VocabParallelEmbedding(nn.Module):
    """An embedding whose rows are divided over a group. sequence_parallel: the output is this rank's part of the sequence."""

    def __init__(self, vocabulary_size: int, embedding_size: int, *, sequence_parallel: bool = False,
                 group: Group | None = None, init_method: Init = _default_init) -> None:
        super().__init__()
        self.group, self.sequence_parallel = _group(group), sequence_parallel
        whole = torch.empty(vocabulary_size, embedding_size)
        init_method(whole)
        self.weight = _part_of(whole, 0, self.group)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return vocab_parallel_embedding(ids, self.weight, sequence_parallel=self.sequence_parallel, group=self.group)


class ParallelMLP(nn.Module):
    """Megatron's: two linear layers, the first divided by its outputs, the second by its inputs."""

    def __init__(self, hidden_size: int, ffn_size: int, *, sequence_parallel: bool = False, group: Group | None = None,
                 init_method: Init = _default_init, bias: bool = True) -> None:
        super().__init__()
        self.up = ColumnParallelLinear(hidden_size, ffn_size, bias, sequence_parallel=sequence_parallel, group=group,
                                       init_method=init_method)
        self.down = RowParallelLinear(ffn_size, hidden_size, bias, sequence_parallel=sequence_parallel, group=group,
                                      init_method=init_method)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.gelu(self.up(x)))


class LayerNorm(nn.LayerNorm):
    """PyTorch's. sequence_parallel: the input is this rank's part of the sequence, so gradients are summed over the group."""

    def __init__(self, hidden_size: int, *, sequence_parallel: bool = False, group: Group | None = None) -> None:
        super().__init__(hidden_size)
        self.group, self.sequence_parallel = _group(group), sequence_parallel

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight, bias = self.weight, self.bias
        if self.sequence_parallel:
            weight, bias = (copy_to_tensor_model_parallel_region(one, self.group) for one in (weight, bias))
        return nn.functional.layer_norm(x, self.normalized_shape, weight, bias, self.eps)


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Causal attention of [batch, heads, sequence, width]."""
    if hasattr(nn.functional, "scaled_dot_product_attention"):  # since PyTorch 2.0
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
    return scores.masked_fill(later, -torch.inf).softmax(-1) @ v


class ParallelAttention(nn.Module):
    """Megatron's: heads are divided over the tensor-parallel group, and the sequence over the context-parallel one.

    x [sequence, batch, hidden_size]. kv_heads: of keys and values, each for equally many heads; None: as many as heads.
    With a cache, x has the tokens that follow those in it, which they see (KeyValueCache).
    """

    def __init__(self, hidden_size: int, heads: int, kv_heads: int | None = None, *, sequence_parallel: bool = False,
                 group: Group | None = None, init_method: Init = _default_init, bias: bool = True) -> None:
        super().__init__()
        group = _group(group)
        kv_heads = heads if kv_heads is None else kv_heads
        self.width = divided("hidden_size", hidden_size, "the number of heads", heads)
        self.queries = divided("the number of heads", heads, "the number of key-value heads", kv_heads)
        self.kv_heads = divided("the number of key-value heads", kv_heads, "tensor_parallel_size", group.size)
        self.qkv = ColumnParallelLinear(hidden_size, (heads + 2 * kv_heads) * self.width, bias, group=group,
                                        sequence_parallel=sequence_parallel, init_method=init_method)
        self.out = RowParallelLinear(hidden_size, hidden_size, bias, group=group, sequence_parallel=sequence_parallel,
                                     init_method=init_method)

    def forward(self, x: torch.Tensor, cache: LayerCache | None = None, *, sequence: int | None = None) -> torch.Tensor:
        """sequence: the length of the whole, if the context-parallel ranks do not divide it."""
        mixed = self.qkv(x)  # for each key-value head its queries, the key and the value
        mixed = mixed.view(*mixed.shape[:2], self.kv_heads, self.queries + 2, self.width)
        if cache is not None:
            y = cache.attend(mixed)
        elif current().context.size > 1:
            y = context_parallel_attention(mixed, sequence=sequence)
        else:
            q, k, v = (one.flatten(2, 3).permute(1, 2, 0, 3) for one in
                       (mixed[..., :-2, :], mixed[..., -2:-1, :], mixed[..., -1:, :]))
            k, v = (one.repeat_interleave(self.queries, 1) for one in (k, v))
            y = _attention(q, k, v).permute(2, 0, 1, 3)
        return self.out(y.flatten(2))
