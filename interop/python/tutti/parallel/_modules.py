"""Tensor and sequence parallelism as PyTorch's modules, in Megatron's names."""

# mypy: disable-error-code="misc,no-untyped-call,no-any-return"
from __future__ import annotations

from typing import Callable

import torch
from torch import nn

from ._layers import (column_parallel_linear, divided, row_parallel_linear, vocab_parallel_cross_entropy,
                      vocab_parallel_embedding)
from ._state import Group, current

__all__ = ["ColumnParallelLinear", "ParallelAttention", "ParallelMLP", "RowParallelLinear", "VocabParallelEmbedding",
           "vocab_parallel_cross_entropy"]

Init = Callable[[torch.Tensor], object]


def _group(group: Group | None) -> Group:
    return current().tensor if group is None else group


def _part_of(whole: torch.Tensor, dim: int, group: Group) -> nn.Parameter:
    """This rank's part of a weight. All ranks make the whole one, so that a seed gives one model, however it is split."""
    divided("a weight's dimension", whole.shape[dim], "tensor_parallel_size", group.size)
    return nn.Parameter(whole.chunk(group.size, dim)[group.rank].clone())


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
        self.bias = nn.Parameter(torch.zeros(self.weight.shape[0])) if bias else None

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
