# mypy: disable-error-code="misc,no-untyped-call,no-any-return"
"""Parameters that a group's ranks hold in parts: saved whole, and loaded into any other division."""

from __future__ import annotations

import math
from typing import Any, Mapping, NamedTuple, Sequence

import torch
from torch import nn

from .._errors import InvalidArgumentError
from ._compute import stream_of
from ._state import Group


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
    parameters = dict(module.named_parameters())
    return {name: _whole(value.detach(), getattr(parameters.get(name), "divisions", ()))
            for name, value in module.state_dict().items()}


def load_whole_state_dict(module: nn.Module, state: Mapping[str, torch.Tensor]) -> None:
    """Loads what whole_state_dict returned, however the model was divided then. Tensors that the module lacks are left out.

    Raises InvalidArgumentError naming a tensor that is missing or has another shape.
    """
    parameters = dict(module.named_parameters())
    for name, value in module.state_dict().items():
        if name not in state:
            raise InvalidArgumentError(f"the state has no {name}")
        given = state[name]
        divisions = getattr(parameters.get(name), "divisions", ())
        expected = list(value.shape)
        for dim, _, sizes in divisions:
            expected[dim] = sum(sizes)
        if list(given.shape) != expected:
            raise InvalidArgumentError(f"{name} is {list(given.shape)} in the state, and {expected} in the model")
        for dim, group, sizes in divisions:
            given = given.split(sizes, dim)[group.rank]
        with torch.no_grad():
            value.copy_(given)
