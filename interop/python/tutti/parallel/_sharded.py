"""Sharded data parallelism: each rank keeps a part of the optimiser's state, of the gradients and of the parameters."""

# mypy: disable-error-code="misc,no-untyped-call,no-any-return"
from __future__ import annotations

import functools
from typing import Any, Callable, Iterator, Mapping, Sequence

import torch
from torch import nn

from .. import _parallel
from .._errors import InvalidArgumentError, InvalidUsageError
from . import _checkpoint
from ._compute import compute_for
from ._data import Replicas, after_gradient, at_end_of_backward, tensors_of
from ._division import clip
from ._layers import _reduce
from ._state import Group
from ._units import Unit, blocks_of

_STAGES: dict[Any, int] = {1: 1, 2: 2, 3: 3, "optimizer_state": 1, "gradients": 2, "parameters": 3,
                           "SHARD_GRAD_OP": 2, "FULL_SHARD": 3}


class FullyShardedDataParallel(Replicas):
    """Shares what data parallelism repeats: ZeRO's three stages, by the means of PyTorch's FSDP.

    module: on its device, the same on all ranks, which get rank 0's parameters. units: submodules whose parameters are
    gathered together while one computes, in the order of their use; None: the members of the module's outermost
    ModuleLists and Sequentials, which are a transformer's blocks. The other parameters are the root unit, which is
    whole as long as the module computes. Parameters are float32 or bfloat16, one type in a unit; those that require no
    gradient stay whole on every rank.
    stage: 1 shards the optimiser's state, 2 ("SHARD_GRAD_OP") gradients, too, 3 ("FULL_SHARD") parameters, too.
    shard_group_size: neighbours that share one model (hybrid sharding); the group has as many replicas as such groups.
    0: all. group: None: current()'s data_context.

        model = FullyShardedDataParallel(model)
        optimizer = torch.optim.AdamW(model.parameters())
        loss = model(x); loss.backward(); optimizer.step(); optimizer.zero_grad()

    parameters() are this rank's shards: one flat float32 tensor a unit, whose grad is the average after backward(). So
    an optimiser must be elementwise, and norms of gradients are clip_grad_norm_'s. The module's own parameters have
    elements only while their unit computes.

    Raises InvalidArgumentError or InvalidUsageError on every rank where units, parameters or settings differ.
    """

    def __init__(self, module: nn.Module, units: Sequence[nn.Module] | None = None, *, stage: int | str = 3,
                 shard_group_size: int = 0, group: Group | None = None) -> None:
        super().__init__(module, group)
        if stage not in _STAGES:
            raise InvalidArgumentError(f"stage is {stage}: it must be one of {', '.join(map(str, _STAGES))}")
        self._stage, self._shard_group_size = _STAGES[stage], shard_group_size or self.group.size
        self._units = self._divide(module, units)
        compute = compute_for(self._units[0].parameters[0])
        named = [(unit.name, [(name, one.detach()) for name, one in zip(unit.names, unit.parameters)])
                 for unit in self._units]
        self._core = _parallel.Sharded(self.group, compute, named, self._stage, shard_group_size)
        self._share(one for one in module.parameters() if not one.requires_grad)
        self._share(iter(module.buffers()))
        self._accumulations = []
        self._places: dict[int, tuple[Unit, int]] = {}
        for unit in self._units:
            for parameter in unit.parameters:
                parameter.register_hook(functools.partial(self._begin_adding, unit))
                self._accumulations.append(after_gradient(parameter, functools.partial(self._ready, unit)))
            unit.shard_by(self._core, self._places)
        self._compute = module.__call__ if self._root is None else self._computing(self._root, module.__call__)
        self._open: list[Unit] = []  # in backward, in the order in which they began, without the root
        self._step_begun = False  # gradients are added up in the shards
        self._may_have_changed = False  # the shards, by an optimiser
        self._before: list[torch.Tensor | None] = []  # shards' gradients of earlier steps, which were not zeroed

    def _divide(self, module: nn.Module, units: Sequence[nn.Module] | None) -> list[Unit]:
        names = {one: name for name, one in module.named_modules()}
        chosen = list(blocks_of(module)) if units is None else []
        for one in units or []:
            if names.get(one, "") == "":
                raise InvalidArgumentError(f"a unit is no submodule of the module: {type(one).__name__}")
            chosen.append((names[one], one))
        owner: dict[nn.Parameter, str] = {}
        groups: list[tuple[str, nn.Module, list[tuple[str, nn.Parameter]]]] = []
        for path, one in [*chosen, ("root", module)]:
            mine = []
            for name, parameter in one.named_parameters():
                if not parameter.requires_grad:
                    continue
                if parameter in owner and one is not module:
                    raise InvalidArgumentError(f"units {owner[parameter]} and {path} share parameter {path}.{name}: "
                                               "leave both modules out of units, so that the root unit has them")
                if not getattr(parameter, "allreduce", True):
                    raise InvalidArgumentError(f"parameter {name} is an expert's (its allreduce is False), whose other "
                                               "ranks FullyShardedDataParallel does not know")
                if parameter not in owner:
                    owner[parameter] = path
                    mine.append((name if one is module else f"{path}.{name}", parameter))
            if mine:
                groups.append((path, one, mine))
        if not groups:
            raise InvalidArgumentError("the module has no parameter that requires a gradient")
        if groups[-1][0] == "root":
            groups.insert(0, groups.pop())
        divided: list[Unit] = []
        for path, one, mine in groups:
            divided.append(Unit(len(divided), path, mine))
            if one is not module:
                one.forward = self._computing(divided[-1], one.forward)
        self._root = divided[0] if groups[0][0] == "root" else None
        return divided

    def _computing(self, unit: Unit, forward: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(forward)
        def computed(*args: Any, **kwargs: Any) -> Any:
            if unit.in_forward or unit.in_backward:  # recomputed by torch.utils.checkpoint: the parameters are there
                return forward(*args, **kwargs)
            unit.begin_forward()
            try:
                output = forward(*args, **kwargs)
            finally:
                unit.end_forward()
            given = {id(tensor) for tensor in tensors_of((args, kwargs))}
            for tensor in tensors_of(output):
                if tensor.requires_grad and id(tensor) not in given:
                    tensor.register_hook(functools.partial(self._begin_unit, unit))
            return output
        return computed

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        self._require_whole_passes()
        if self._may_have_changed:
            self.parameters_updated()
        with torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack):
            output = self._compute(*args, **kwargs)
        for tensor in tensors_of(output):
            if tensor.requires_grad:
                tensor.register_hook(self._begin)
        return output

    # What autograd saves of gathered parameters is where it lies in which, so that their memory does not wait for it.
    def _pack(self, tensor: torch.Tensor) -> Any:
        offset = int(tensor.storage_offset())
        address = tensor.data_ptr() - offset * tensor.element_size()
        unit, i = self._places.get(address, (None, 0))
        if unit is None or tensor.dtype != unit.parameters[0].dtype:
            return tensor.detach(), tensor._version
        return unit, i, tensor.shape, tensor.stride(), offset

    def _unpack(self, packed: Any) -> torch.Tensor:
        if len(packed) == 2:
            tensor, version = packed
            if tensor._version != version:  # autograd's own check, which it leaves out for what hooks have saved
                raise RuntimeError("one of the variables needed for gradient computation has been modified by an inplace "
                                   f"operation: a tensor of shape {list(tensor.shape)}")
            return tensor
        unit, i, shape, stride, offset = packed
        self._begin_unit(unit)
        again = not unit.in_backward  # gathered only for this: the result keeps the memory
        if again:
            unit.begin_forward()
        value = unit.parameters[i].detach().as_strided(shape, stride, offset)
        if again:
            unit.end_forward()
        return value

    def _begin(self, _: torch.Tensor | None = None) -> None:
        if self._in_backward:
            return
        synchronises = self._synchronises
        at_end_of_backward(lambda: self._end(synchronises))
        self._in_backward = True
        for unit in self._units:
            unit.was_in_backward = False
        self._core.set_requires_gradient_sync(synchronises)
        if not self._step_begun:
            self._before = [None if unit.shard.grad is None else unit.shard.grad.clone() for unit in self._units]
            self._core.zero_grad()
            self._step_begun = True

    def _begin_unit(self, unit: Unit, _: torch.Tensor | None = None) -> None:
        self._begin()
        if unit.in_backward or unit.was_in_backward:
            return
        if unit is self._root and not self._open and len(self._units) > 1:
            self._core.set_next_pass(len(self._units) - 1)  # gathered while the root's last layers compute
        unit.begin_backward()
        if unit is not self._root:
            self._open.append(unit)

    def _begin_adding(self, unit: Unit, _: torch.Tensor) -> None:
        """Before a parameter's gradient is added."""
        if unit.was_in_backward and not unit.in_backward:  # it is used in several passes of reentrant checkpoints
            if self._stage == 1:
                raise InvalidUsageError(f"unit {unit.name} has more gradients after its own were sent, which stage 1 "
                                        "cannot add: torch.utils.checkpoint needs use_reentrant=False there")
            unit.was_in_backward = False
        self._begin_unit(unit)

    # Units end in the order in which they began, since a rank may not use a parameter that others do.
    def _ready(self, unit: Unit) -> None:
        unit.missing -= 1
        while self._open and self._open[0].missing == 0:
            self._open.pop(0).end_backward()

    def _end(self, synchronises: bool) -> None:
        for unit in [*self._open, *([self._root] if self._root is not None and self._root.in_backward else [])]:
            unit.end_backward()
        self._open.clear()
        if synchronises:
            self._core.finish_gradients()
            for unit, before in zip(self._units, self._before):
                unit.shard.grad = unit.grad if before is None else unit.grad.add_(before)
            self._step_begun = False
            self._may_have_changed = True
        self._in_backward = False

    def parameters_updated(self) -> None:
        """The shards have changed: units are gathered again. Every rank calls it.

        The first forward after a backward pass does it, for the optimiser. Call it after other changes.
        """
        self._core.parameters_updated()
        self._may_have_changed = False

    def named_parameters(self, prefix: str = "", recurse: bool = True,
                         remove_duplicate: bool = True) -> Iterator[tuple[str, nn.Parameter]]:
        """This rank's shards, by the units' names: flat, float32, perhaps without elements."""
        for unit in self._units:
            yield f"{prefix}.{unit.name}" if prefix else unit.name, unit.shard

    def clip_grad_norm_(self, max_norm: float) -> torch.Tensor:
        """Scales gradients so that their norm, over the ranks of the group, is at most max_norm. Returns what it was."""
        grads = [unit.shard.grad for unit in self._units if unit.shard.grad is not None]
        squares = sum((grad.square().sum() for grad in grads), self._units[0].shard.new_zeros(()))
        replicas = self.group.size // self._shard_group_size
        return clip(grads, (_reduce(self.group, squares) / replicas).sqrt(), max_norm)

    def bytes_sent(self) -> dict[str, int]:
        """Payload that this rank has sent, by group: `group`, and the two of hybrid sharding."""
        return {self.group.name: self.group.bytes_sent, **self._core.bytes_sent()}

    def memory(self) -> dict[str, tuple[int, int]]:
        """Bytes that this rank keeps, (now, most so far): parameters, gradients and bfloat16's master_copies."""
        return self._core.memory()

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        raise InvalidUsageError("a module is moved or cast before FullyShardedDataParallel has it")

    def state_dict(self, *, rank0_only: bool = False) -> dict[str, Any]:  # type: ignore[override]
        """The whole module's, by its own names: for load_state_dict at any number of ranks, or for the plain module.

        Every rank calls it. Parameters are float32. rank0_only: the other ranks get nothing, and hold a unit at a time.
        """
        state = _checkpoint.state_of(self.module, self._units, self._keeps(rank0_only))
        return state if self._keeps(rank0_only) else {}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:  # type: ignore[override]
        """Takes what state_dict returned at any number of ranks, or what the plain module's does. Every rank calls it.

        Raises InvalidArgumentError where something is missing, unknown or of another shape.
        """
        _checkpoint.load_state(self.module, self._units, state_dict)
        self.parameters_updated()

    def optimizer_state_dict(self, optimizer: torch.optim.Optimizer, *, rank0_only: bool = False) -> dict[str, Any]:
        """The optimiser's state, whole, by the names of the module's parameters: {"state": .., "param_groups": ..}.

        Every rank calls it. For elementwise optimisers over parameters(), such as Adam and SGD.
        """
        state = _checkpoint.optimizer_state_of(optimizer, self._units, self._keeps(rank0_only))
        return state if self._keeps(rank0_only) else {}

    def load_optimizer_state_dict(self, optimizer: torch.optim.Optimizer, state_dict: Mapping[str, Any]) -> None:
        """Takes what optimizer_state_dict returned at any number of ranks. Every rank calls it.

        Raises InvalidArgumentError where a parameter's state is missing or of another shape.
        """
        _checkpoint.load_optimizer_state(optimizer, self._units, state_dict)

    def _keeps(self, rank0_only: bool) -> bool:
        return not rank0_only or self.group.rank == 0
