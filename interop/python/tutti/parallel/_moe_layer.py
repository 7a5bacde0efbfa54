"""A layer of a mixture of experts as PyTorch's module."""

# mypy: disable-error-code="misc,no-untyped-call,no-any-return"
from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.functional import gelu, linear
from torch.utils import checkpoint

from .. import _parallel
from .._errors import InvalidArgumentError
from ._division import Division
from ._expert_autograd import WithAuxLoss
from ._experts import MoEAlltoAllTokenDispatcher, Routing, route
from ._layers import copy_to_tensor_model_parallel_region, divided, reduce_from_tensor_model_parallel_region
from ._modules import Init, _default_init
from ._state import Group, current

__all__ = ["MoELayer"]

# Raised in a forward by which torch.utils.checkpoint(use_reentrant=False) computes again, at the last tensor that the
# backward needs: not a failure, and on all ranks alike. Older PyTorch has none.
_RECOMPUTED: tuple[type[BaseException], ...] = tuple(
    one for one in [getattr(checkpoint, "_StopRecomputationError", None)] if one is not None)


class MoELayer(nn.Module):
    """A router and experts, each an MLP without biases (hidden_size to ffn_size, GELU, and back), divided over a group.

    forward takes this rank's tokens [.., hidden_size], any number of them, and returns as many. All ranks of the group
    call it together. It leaves load, of all the group's tokens, and aux_loss, to add to this rank's loss. In a Pipeline's
    step it adds it by itself: the aux loss's gradient enters where the output's does, at the scale of the loss. The ranks
    that share other layers (current().tensor) bring the same tokens, or with sequence_parallel parts of a sequence.

    num_experts, topk, capacity_factor: as of MoEAlltoAllTokenDispatcher, whose errors it raises; renormalize and
    aux_loss_coeff: as of route. shared_ffn_size: of an expert that every token uses, beside its topk; 0: none.
    overlap: the tokens travel in two halves: while the first half does, the shared expert computes, and while the
    second does, the first half's experts. The results are the same up to rounding.
    group: None: current().expert, and current().expert_tensor shares each expert, whose ranks bring the same tokens. With
    another group every rank brings tokens of its own.

    Every rank makes all weights and keeps its own, so that a seed gives one model however experts are divided.
    """

    aux_loss: torch.Tensor
    load: _parallel.LoadStatistics
    # Set by a Pipeline in its step: how much of a micro-batch's loss is in the batch's.
    aux_loss_scale: float | None = None

    def __init__(self, hidden_size: int, ffn_size: int, num_experts: int, topk: int = 2, *,
                 capacity_factor: float = 0.0, renormalize: bool = True, aux_loss_coeff: float = 0.0,
                 shared_ffn_size: int = 0, overlap: bool = False, sequence_parallel: bool = False,
                 group: Group | None = None, init_method: Init = _default_init) -> None:
        super().__init__()
        self.dispatcher = MoEAlltoAllTokenDispatcher(num_experts, topk, hidden_size, capacity_factor=capacity_factor,
                                                     parts=2 if overlap else 1, group=group)
        self.group = self.dispatcher.group
        self.expert_tensor = _shared_experts() if group is None else None
        # The ranks that share other layers, and have experts of their own.
        self.tensor = current().tensor if group is None and self.expert_tensor is None else None
        self.sequence_parallel = sequence_parallel
        if sequence_parallel and self.expert_tensor is not None:
            raise InvalidArgumentError("sequence_parallel needs whole experts: expert_tensor_parallel_size is "
                                       f"{self.expert_tensor.size}, and must be 1")
        self.renormalize, self.aux_loss_coeff, self.overlap = renormalize, aux_loss_coeff, overlap

        def made(*shape: int) -> torch.Tensor:
            weight = torch.empty(shape)
            init_method(weight)
            return weight

        self.router = nn.Parameter(made(num_experts, hidden_size))
        local, up, down = self.dispatcher.local_experts, [], []
        for expert in range(num_experts):
            weights = made(ffn_size, hidden_size), made(hidden_size, ffn_size)
            if expert in local:
                up.append(self._part_of(weights[0], 0))
                down.append(self._part_of(weights[1], 1))
        self.up = self._experts(up, 1)  # [local experts, ffn_size, hidden_size]
        self.down = self._experts(down, 2)  # [local experts, hidden_size, ffn_size]
        self.shared_up = nn.Parameter(made(shared_ffn_size, hidden_size)) if shared_ffn_size else None
        self.shared_down = nn.Parameter(made(hidden_size, shared_ffn_size)) if shared_ffn_size else None

    def _experts(self, weights: list[torch.Tensor], dim: int) -> nn.Parameter:
        """dim: the one that expert_tensor divides."""
        parameter: Any = nn.Parameter(torch.stack(weights))
        experts = [len(self.dispatcher.experts_of(rank)) for rank in range(self.group.size)]
        parameter.divisions = [Division(0, self.group, experts)]
        if self.expert_tensor is not None:
            parameter.divisions.append(
                Division(dim, self.expert_tensor, [parameter.shape[dim]] * self.expert_tensor.size))
        parameter.allreduce = False  # Megatron's mark of what the ranks with the same experts average
        return parameter

    def _part_of(self, weight: torch.Tensor, dim: int) -> torch.Tensor:
        if self.expert_tensor is None:
            return weight
        divided("ffn_size", weight.shape[dim], "expert_tensor_parallel_size", self.expert_tensor.size)
        return weight.chunk(self.expert_tensor.size, dim)[self.expert_tensor.rank]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[-1] != self.dispatcher.hidden_size:
            raise InvalidArgumentError(f"the input's last dimension is {x.shape[-1]}, but hidden_size is "
                                       f"{self.dispatcher.hidden_size}")
        every = x.reshape(-1, x.shape[-1])
        tokens = every
        try:
            if self.tensor is not None and not self.sequence_parallel:
                # All of these ranks have the same tokens: each brings a part of them.
                mine = torch.arange(len(every), device=x.device).tensor_split(self.tensor.size)[self.tensor.rank]
                tokens = copy_to_tensor_model_parallel_region(every, self.tensor)[mine]
            routing = route(linear(tokens, self._shared_by_parts(self.router)), self.dispatcher.topk, renormalize=self.renormalize,
                            aux_loss_coeff=self.aux_loss_coeff, group=self.group)
            self.aux_loss, self.load = routing.aux_loss, routing.load
            if self.tensor is not None and self.tensor.size > 1:
                # Each of these ranks has a part of the tokens: theirs add up to the loss of all.
                share = 1 / self.tensor.size if tokens is every else len(tokens) / max(1, len(every))
                self.aux_loss = reduce_from_tensor_model_parallel_region(self.aux_loss * share, self.tensor)
            output = self._overlapped(tokens, routing) if self.overlap else self._plain(tokens, routing)
            if tokens is not every:
                output = torch.zeros_like(every).index_copy(0, mine, output)
                output = reduce_from_tensor_model_parallel_region(output, self.tensor)
            if self.aux_loss_scale is not None and self.aux_loss_coeff:
                output = WithAuxLoss.apply(output, self.aux_loss, self.aux_loss_scale)
                self.aux_loss = self.aux_loss.detach()
        except _RECOMPUTED:
            raise
        except BaseException:
            for group in (self.group, self.expert_tensor, self.tensor):  # whose ranks would wait for this one
                if group is not None:
                    group.revoke()
            raise
        return output.view_as(x)

    def _plain(self, tokens: torch.Tensor, routing: Routing) -> torch.Tensor:
        handle = self.dispatcher.layout(routing)
        rows = self.dispatcher.dispatch(tokens, handle)
        output = self.dispatcher.combine(self.experts(rows, handle.tokens_per_expert), routing.weights, handle)
        shared = self._shared(tokens)
        return output if shared is None else output + shared

    def _overlapped(self, tokens: torch.Tensor, routing: Routing) -> torch.Tensor:
        dispatcher, handles = self.dispatcher, self.dispatcher.layouts(routing)
        sizes = [handle.tokens for handle in handles]
        halves, weights = tokens.split(sizes), routing.weights.split(sizes)
        travelling = dispatcher.dispatch_begin(halves[0], handles[0])
        shared = self._shared(tokens)
        first = dispatcher.dispatch_end(travelling)
        travelling = dispatcher.dispatch_begin(halves[1], handles[1])
        first = self.experts(first, handles[0].tokens_per_expert)
        second = dispatcher.dispatch_end(travelling)
        returning = dispatcher.combine_begin(first, weights[0], handles[0])
        second = self.experts(second, handles[1].tokens_per_expert)
        output = torch.cat([dispatcher.combine_end(returning), dispatcher.combine(second, weights[1], handles[1])])
        return output if shared is None else output + shared

    def experts(self, rows: torch.Tensor, tokens_per_expert: list[int]) -> torch.Tensor:
        """This rank's experts, on rows sorted by expert: for a subclass with others."""
        if self.expert_tensor is not None:
            rows = copy_to_tensor_model_parallel_region(rows, self.expert_tensor)
        output = torch.cat([linear(gelu(linear(part, up)), down) for part, up, down in
                            zip(rows.split(tokens_per_expert), self.up.unbind(), self.down.unbind())])
        if self.expert_tensor is not None:
            output = reduce_from_tensor_model_parallel_region(output, self.expert_tensor)
        return output

    def _shared(self, tokens: torch.Tensor) -> torch.Tensor | None:
        if self.shared_up is None or self.shared_down is None:
            return None
        up, down = self._shared_by_parts(self.shared_up), self._shared_by_parts(self.shared_down)
        return linear(gelu(linear(tokens, up)), down)

    def _shared_by_parts(self, weight: torch.Tensor) -> torch.Tensor:
        """A weight that all ranks have, of which each sees a part of the tokens: the gradients are summed."""
        return weight if self.tensor is None else copy_to_tensor_model_parallel_region(weight, self.tensor)


def _shared_experts() -> Group | None:
    """The ranks that share each expert, if it is not this one alone."""
    experts, layers = current().expert_tensor, current().tensor
    if experts.size == 1:
        return None
    if experts.ranks != layers.ranks:
        raise InvalidArgumentError(f"ranks {experts.ranks} share each expert, but ranks {layers.ranks} share other "
                                   "layers: set expert_tensor_parallel_size to 1, or to tensor_parallel_size "
                                   f"({layers.size})")
    return experts
