"""Data parallelism: each rank computes its own samples' gradients, which are averaged while backward computes."""

# mypy: disable-error-code="misc,no-untyped-call,no-any-return"
from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator

import torch
from torch import nn

from .. import _parallel
from .._errors import InvalidArgumentError, InvalidUsageError
from ._compute import compute_for, stream_of
from ._state import Group, current

_MIB = 1 << 20


def tensors_of(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in what a module returned."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list, dict)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from tensors_of(one)


def at_end_of_backward(call: Callable[[], None]) -> None:
    """For the backward pass in which the caller is."""
    torch.autograd.Variable._execution_engine.queue_callback(call)


def after_gradient(parameter: nn.Parameter, call: Callable[[], None]) -> Any:
    """Calls it after each backward pass has added the parameter's gradient. REQUIRES: the result lives as long."""
    with torch.enable_grad():
        function: Any = parameter.expand_as(parameter).grad_fn
    accumulation = function.next_functions[0][0]
    accumulation.register_hook(lambda *_: call())
    return accumulation


class Replicas(nn.Module):
    """A module whose copies on a group's ranks learn together: what its wrappers have in common."""

    def __init__(self, module: nn.Module, group: Group | None) -> None:
        super().__init__()
        devices = list(dict.fromkeys(str(parameter.device) for parameter in module.parameters()))
        if len(devices) > 1:
            raise InvalidArgumentError(f"the module's parameters are on several devices: {', '.join(devices)}")
        self.module = module
        self.group = current().data_context if group is None else group
        self._synchronises = True
        self._in_backward = False

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes inside add gradients up and average none: for all of a step's micro-batches but the last."""
        before, self._synchronises = self._synchronises, False
        try:
            yield
        finally:
            self._synchronises = before

    def _require_whole_passes(self) -> None:
        if self._in_backward:
            self.group.revoke()  # the others wait for this rank's gradients
            raise InvalidUsageError("an error ended the last backward pass before its gradients were averaged: "
                                    "the group cannot go on")

    def _share(self, tensors: Iterator[torch.Tensor]) -> None:
        """What has no gradients is rank 0's at the beginning."""
        if self.group.size > 1:
            for tensor in tensors:
                # As bytes, whatever the type and the strides.
                dense = tensor.detach().contiguous()
                self.group.broadcast(dense.view(-1).view(torch.uint8), 0, stream_of(tensor))
                tensor.detach().copy_(dense)


class _Bucketed:
    """Parameters whose gradients one group averages."""

    def __init__(self, parameters: list[tuple[str, nn.Parameter]], group: Group, bucket_bytes: int, divisor: int,
                 find_unused: bool) -> None:
        self.parameters = [parameter for _, parameter in parameters]
        named = [(name, parameter.detach()) for name, parameter in parameters]
        self.core = _parallel.DataParallel(group, compute_for(self.parameters[0]), named, bucket_bytes, divisor,
                                           find_unused)
        self.grads: list[Any] = [self.core.grad(i) for i in range(len(named))]
        self.given: list[int] = []  # those that had no gradient when the pass began

    def begin(self, synchronises: bool) -> None:
        """Gradients are added where they are sent from."""
        self.given = [i for i, parameter in enumerate(self.parameters) if parameter.grad is None]
        if len(self.given) == len(self.parameters):
            self.core.zero_grad()
        else:
            for i in self.given:
                self.grads[i].zero_()
        self.core.accumulate(not synchronises)
        for i in range(len(self.parameters)):
            self.attach(i)
        if len(self.given) < len(self.parameters):
            self.core.keep_gradients()

    def attach(self, i: int) -> None:
        parameter, grad = self.parameters[i], self.grads[i]
        if parameter.grad is not None and parameter.grad.data_ptr() != grad.data_ptr():
            grad.copy_(parameter.grad)
        if parameter.grad is not grad:
            parameter.grad = grad

    def forget_unused(self) -> None:
        for i in self.given:
            if self.core.unused(i):
                self.parameters[i].grad = None


class DistributedDataParallel(Replicas):
    """Averages a module's gradients over the ranks of a group, as PyTorch's class of the name does.

    module: on its device, the same on all ranks, which get rank 0's parameters and buffers. group: None: current()'s
    data_context. After backward() each parameter's grad is the average over the group; where a rank did not use a
    parameter, it counts as zeros. Buckets of bucket_cap_mb MiB of gradients are sent while backward computes others.

    find_unused_parameters: parameters that no rank used get no gradient, where they would get zeros; one more small
    all-reduce. Parameters whose attribute `allreduce` is False, as Megatron marks experts, are summed over expert_group
    (None: current()'s expert_data) and divided by the size of `group`, whose samples they see.

    Raises InvalidUsageError on every rank, naming two, where the ranks' parameters differ.
    """

    def __init__(self, module: nn.Module, group: Group | None = None, *, bucket_cap_mb: float = 25,
                 find_unused_parameters: bool = False, expert_group: Group | None = None) -> None:
        super().__init__(module, group)
        trained: dict[bool, list[tuple[str, nn.Parameter]]] = {True: [], False: []}
        for name, parameter in module.named_parameters():
            if parameter.requires_grad:
                trained[getattr(parameter, "allreduce", True)].append((name, parameter))
        if not any(trained.values()):
            raise InvalidArgumentError("the module has no parameter that requires a gradient")
        self._find_unused = find_unused_parameters
        self._parts: list[_Bucketed] = []
        self._late: list[tuple[_Bucketed, int]] = []
        for by_all, parameters in trained.items():
            if parameters:
                over = self.group if by_all else current().expert_data if expert_group is None else expert_group
                self._parts.append(_Bucketed(parameters, over, max(1, int(bucket_cap_mb * _MIB)), self.group.size,
                                             find_unused_parameters))
        self._share(one for one in module.parameters() if not one.requires_grad)
        self._share(iter(module.buffers()))
        self._accumulations = []
        for part in self._parts:
            for i, parameter in enumerate(part.parameters):
                parameter.register_hook(self._begin)  # before the gradient is added
                self._accumulations.append(after_gradient(parameter, self._ready(part, i)))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        self._require_whole_passes()
        output = self.module(*args, **kwargs)
        for tensor in tensors_of(output):
            if tensor.requires_grad:
                tensor.register_hook(self._begin)
        return output

    def _begin(self, _: torch.Tensor) -> None:
        if self._in_backward:
            return
        self._in_backward = True
        synchronises = self._synchronises
        at_end_of_backward(lambda: self._end(synchronises))
        for part in self._parts:
            part.begin(synchronises)

    def _ready(self, part: _Bucketed, i: int) -> Callable[[], None]:
        def ready() -> None:
            part.attach(i)  # a backward with create_graph adds elsewhere
            if part is self._parts[0]:
                part.core.mark_ready(i)
            else:
                self._late.append((part, i))  # two groups' buckets in an order that all ranks have
        return ready

    def _end(self, synchronises: bool) -> None:
        for part, i in self._late:
            part.core.mark_ready(i)
        self._late.clear()
        if synchronises:
            self._finish()
        self._in_backward = False

    def _finish(self) -> None:
        for part in self._parts:
            part.core.finish_gradients()
            if self._find_unused:
                part.forget_unused()

    def average_gradients(self) -> None:
        """Averages what backward passes inside no_sync() have added up, such as those of a pipeline's step.

        All ranks call it, after passes that gave every parameter its gradient, or zeros.
        """
        self._require_whole_passes()
        for part in self._parts:
            part.begin(True)
        self._finish()
