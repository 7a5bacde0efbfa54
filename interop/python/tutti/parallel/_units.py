"""The units of a sharded model: parameters that are gathered together, while they are used."""

# mypy: disable-error-code="misc,no-untyped-call,no-any-return"
from __future__ import annotations

from typing import Any, Iterator

from torch import nn

from .. import _parallel

_CONTAINERS = (nn.ModuleList, nn.Sequential, nn.ModuleDict)


def blocks_of(module: nn.Module, name: str = "") -> Iterator[tuple[str, nn.Module]]:
    """The members of the outermost lists of modules, such as a transformer's blocks."""
    for child_name, child in module.named_children():
        path = f"{name}.{child_name}" if name else child_name
        if isinstance(module, _CONTAINERS) and not isinstance(child, (nn.ModuleList, nn.ModuleDict)):
            yield path, child
        else:
            yield from blocks_of(child, path)


class Unit:
    """Parameters that are gathered together, and the shard that this rank's optimiser owns."""

    def __init__(self, index: int, name: str, parameters: list[tuple[str, nn.Parameter]]) -> None:
        self.index, self.name = index, name
        self.names = [name for name, _ in parameters]
        self.parameters = [parameter for _, parameter in parameters]
        self.shapes = [parameter.shape for parameter in self.parameters]
        self.in_forward = self.in_backward = False
        self.was_in_backward = False  # in this backward pass
        self.missing = 0  # gradients of this backward pass
        self._nothing = self.parameters[0].detach().new_empty(0)

    def shard_by(self, core: _parallel.Sharded, places: dict[int, tuple[Unit, int]]) -> None:
        """places: gets the parameters that are there, by their memory's address."""
        self.core: Any = core
        self._places = places
        data: Any
        self.grad: Any
        data, self.grad = self.core.shard(self.index)
        self.shard = nn.Parameter(data)
        self._hide()

    def _show(self) -> None:
        for i, parameter in enumerate(self.parameters):
            parameter.data = self.core.data(self.index, i)
            self._places[parameter.data_ptr()] = self, i

    def _hide(self) -> None:
        """Parameters have no elements outside of the unit's passes, so that other uses fail."""
        for parameter in self.parameters:
            self._places.pop(parameter.data_ptr(), None)
            parameter.data = self._nothing

    def begin_forward(self) -> None:
        self.core.pre_forward(self.index)
        self.in_forward = True
        self._show()

    def end_forward(self) -> None:
        self.in_forward = False
        self._hide()
        self.core.post_forward(self.index)

    def begin_backward(self) -> None:
        self.core.pre_backward(self.index)
        self.in_backward = True
        self.missing = len(self.parameters)
        self._show()
        for i, parameter in enumerate(self.parameters):
            parameter.grad = self.core.grad(self.index, i)

    def end_backward(self) -> None:
        self.in_backward, self.was_in_backward = False, True
        for parameter in self.parameters:
            parameter.grad = None
        self._hide()
        self.core.post_backward(self.index)
