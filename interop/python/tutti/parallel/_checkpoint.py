"""Sharded state as whole tensors by the parameters' names, so that any number of ranks can go on with it."""

# mypy: disable-error-code="misc,no-untyped-call,no-any-return"
from __future__ import annotations

from typing import Any, Mapping, Sequence

import torch
from torch import nn

from .._errors import InvalidArgumentError
from ._units import Unit


def _whole(unit: Unit, mine: torch.Tensor) -> dict[str, torch.Tensor]:
    """What the ranks have by the unit's shards, by the parameters' names. Collective."""
    sizes = [shape.numel() for shape in unit.shapes]
    flat = mine.detach().new_empty(sum(sizes))
    unit.core.gather(unit.index, mine.detach().contiguous(), flat)
    return {name: part.view(shape) for name, shape, part in zip(unit.names, unit.shapes, flat.split(sizes))}


def _mine(unit: Unit, whole: Mapping[str, Any], what: str) -> torch.Tensor:
    """This rank's part of that. Raises InvalidArgumentError where something is not there or has another shape."""
    parts = []
    for name, shape in zip(unit.names, unit.shapes):
        if name not in whole:
            raise InvalidArgumentError(f"{what} has nothing for parameter {name}")
        if whole[name].shape != shape:
            raise InvalidArgumentError(f"{what} has shape {list(whole[name].shape)} for parameter {name}, whose shape "
                                       f"is {list(shape)}")
        parts.append(whole[name].detach().to(unit.shard.device, torch.float32).reshape(-1))
    mine = torch.empty_like(unit.shard.detach())
    unit.core.scatter(unit.index, torch.cat(parts), mine)
    return mine


def _names(module: nn.Module, units: Sequence[Unit]) -> dict[str, str]:
    """A sharded parameter's name in its unit, by each of its names in the module: shared ones have several."""
    first = {one: name for unit in units for one, name in zip(unit.parameters, unit.names)}
    return {f"{path}.{name}" if path else name: first[one]
            for path, part in module.named_modules(remove_duplicate=False)
            for name, one in part._parameters.items() if one in first}


def state_of(module: nn.Module, units: Sequence[Unit], keep: bool) -> dict[str, Any]:
    """The module's state. Collective. keep: this rank wants it."""
    state: dict[str, Any] = dict(module.state_dict())
    for unit in units:
        whole = _whole(unit, unit.shard)
        if keep:
            state.update(whole)
    for alias, name in _names(module, units).items():
        state[alias] = state[name]
    return state


def load_state(module: nn.Module, units: Sequence[Unit], state: Mapping[str, Any]) -> None:
    parts = [_mine(unit, state, "the state") for unit in units]
    names = _names(module, units)
    others = module.load_state_dict({name: value for name, value in state.items() if name not in names}, strict=False)
    wrong = [*others.unexpected_keys, *(name for name in others.missing_keys if name not in names)]
    if wrong:
        raise InvalidArgumentError(f"the state and the module differ by {', '.join(wrong)}")
    for unit, part in zip(units, parts):
        unit.shard.detach().copy_(part)


def optimizer_state_of(optimizer: torch.optim.Optimizer, units: Sequence[Unit], keep: bool) -> dict[str, Any]:
    """The optimiser's state. Collective. keep: this rank wants it."""
    state: dict[str, dict[str, Any]] = {}
    sharded = set()  # the others, such as Adam's step, are one number for all
    for unit in units:
        for key, value in sorted(optimizer.state.get(unit.shard, {}).items()):
            by_shards = isinstance(value, torch.Tensor) and value.shape == unit.shard.shape
            if by_shards:
                sharded.add(key)
            values = _whole(unit, value) if by_shards else dict.fromkeys(unit.names, value)
            for name, one in values.items() if keep else ():
                state.setdefault(name, {})[key] = one
    by_shard = {unit.shard: unit for unit in units}
    groups = [{**group, "params": [name for shard in group["params"] for name in by_shard[shard].names]}
              for group in optimizer.param_groups]
    return {"state": state, "by_shards": sorted(sharded), "param_groups": groups}


def load_optimizer_state(optimizer: torch.optim.Optimizer, units: Sequence[Unit], saved: Mapping[str, Any]) -> None:
    ours, theirs = optimizer.param_groups, saved["param_groups"]
    if len(ours) != len(theirs):
        raise InvalidArgumentError(f"the optimiser has {len(ours)} groups of parameters, its state has {len(theirs)}")
    by_shard = {unit.shard: unit for unit in units}
    states = saved["state"]
    state: dict[int, dict[str, Any]] = {}
    groups = []
    for group, hyperparameters in zip(ours, theirs):
        indices = range(len(state), len(state) + len(group["params"]))
        groups.append({**hyperparameters, "params": list(indices)})
        for i, shard in zip(indices, group["params"]):
            unit = by_shard[shard]
            state[i] = {}
            for key, value in states.get(unit.names[0], {}).items():
                if key in saved["by_shards"]:
                    whole = {name: states[name][key] for name in unit.names if key in states.get(name, {})}
                    value = _mine(unit, whole, key)
                state[i][key] = value
    optimizer.load_state_dict({"state": {i: one for i, one in state.items() if one}, "param_groups": groups})
