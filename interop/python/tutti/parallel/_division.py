# mypy: disable-error-code="misc,no-untyped-call,no-any-return"
"""Parameters that a group's ranks hold in parts: saved whole, and loaded into any other division."""

from __future__ import annotations

import math
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

import torch
from torch import nn

from .._errors import InvalidArgumentError
from ._compute import stream_of
from ._state import Group, current

_NORM_EPSILON = 1e-6  # as PyTorch's clip_grad_norm_


class Division(NamedTuple):
    """Rank r of the group holds sizes[r] of the dimension's elements, in the order of ranks."""

    dim: int
    group: Group
    sizes: list[int]


def divided_parameter(whole: torch.Tensor, dim: int, group: Group, sizes: Sequence[int]) -> nn.Parameter:
    """This rank's part of a parameter, which remembers the division."""
    parameter: Any = nn.Parameter(whole.split(list(sizes), dim)[group.rank].clone())
    parameter.divisions = [Division(dim, group, list(sizes))]
    return parameter


def _whole(part: torch.Tensor, divisions: Sequence[Division]) -> torch.Tensor:
    for dim, group, sizes in divisions:
        rows = part.movedim(dim, 0).contiguous()
        row = math.prod(rows.shape[1:])
        gathered = rows.new_empty((sum(sizes), *rows.shape[1:]))
        group.all_gather_v(rows, [size * row for size in sizes], gathered, stream_of(rows))
        part = gathered.movedim(0, dim)
    return part


def whole_state_dict(module: nn.Module) -> dict[str, torch.Tensor]:
    """module.state_dict(), with whole tensors for what the ranks hold in parts. Collective over the parts' groups."""
    return {name: _whole(value.detach(), getattr(value, "divisions", ()))
            for name, value in module.state_dict(keep_vars=True).items()}


def load_whole_state_dict(module: nn.Module, state: Mapping[str, torch.Tensor]) -> None:
    """Loads what whole_state_dict returned, however the model was divided then. Tensors that the module lacks are left out.

    Raises InvalidArgumentError naming a tensor that is missing or has another shape.
    """
    for name, value in module.state_dict(keep_vars=True).items():
        if name not in state:
            raise InvalidArgumentError(f"the state has no {name}")
        given = state[name]
        divisions = getattr(value, "divisions", ())
        expected = list(value.shape)
        for dim, _, sizes in divisions:
            expected[dim] = sum(sizes)
        if list(given.shape) != expected:
            raise InvalidArgumentError(f"{name} is {list(given.shape)} in the state, and {expected} in the model")
        for dim, group, sizes in divisions:
            given = given.split(sizes, dim)[group.rank]
        with torch.no_grad():
            value.copy_(given)


def clip(grads: Iterable[torch.Tensor], norm: torch.Tensor, max_norm: float) -> torch.Tensor:
    """Scales gradients of this norm so that it is at most max_norm. Returns what it was."""
    scale: Any = max_norm / (norm + _NORM_EPSILON)
    for grad in grads:
        grad.mul_(scale.clamp(max=1))
    return norm


def clip_grad_norm_(parameters: Iterable[torch.Tensor], max_norm: float) -> torch.Tensor:
    """Scales gradients so that their norm, over the whole model, is at most max_norm. Returns what it was.

    Every rank of the model calls it with its own parameters: those that ranks hold in parts count over all parts, others
    once, and a pipeline's stages add up. All ranks scale by the same factor.
    """
    trained = [(one, one.grad.detach()) for one in parameters if one.grad is not None]
    if not trained:
        raise InvalidArgumentError("no parameter has a gradient")
    squares: dict[tuple[Group, ...], torch.Tensor] = {}
    for one, grad in trained:
        groups = tuple(division.group for division in getattr(one, "divisions", ()))
        square = grad.float().square().sum()
        squares[groups] = squares[groups] + square if groups in squares else square
    for groups, square in squares.items():
        for group in groups:
            group.all_reduce(square, square, "sum", stream_of(square))
    total = torch.stack(list(squares.values())).sum()
    current().pipeline.all_reduce(total, total, "sum", stream_of(total))
    return clip([grad for _, grad in trained], total.sqrt(), max_norm)
