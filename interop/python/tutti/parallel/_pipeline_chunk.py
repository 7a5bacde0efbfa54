"""A module as a chunk of a pipeline, with the passes that the C++ layer calls."""

# mypy: disable-error-code="no-untyped-call,no-any-return"
from __future__ import annotations

from typing import Any, Callable

import torch

from .._errors import InvalidArgumentError
from ._pipeline_split import SplitBackward

Spec = tuple[torch.Size, torch.dtype]


def _said(spec: Spec) -> str:
    shape, dtype = spec
    return f"{str(dtype).replace('torch.', '')} {list(shape)}"


class Chunk:
    """A module, and its state in a batch. Passes get tensors over the pipeline's memory, None at the model's ends."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        self.begin(False, 1)

    def begin(self, training: bool, share: float) -> None:
        """share: of a micro-batch's loss in the batch's."""
        self._training, self._share = training, share
        layer: Any
        for layer in self.module.modules():
            if hasattr(layer, "aux_loss_scale"):  # a MoELayer
                layer.aux_loss_scale = share if training else None
        self.inputs: tuple[torch.Tensor, ...] = ()  # the micro-batches of the model's inputs
        self.is_last = False
        self.loss: Callable[[int, torch.Tensor], torch.Tensor] | None = None
        self.results: list[torch.Tensor] = []  # of the model's last chunk: losses, or outputs
        self.failure: BaseException | None = None  # why this rank cannot begin
        # By micro-batch: input and output, and a backward of which the first part is done.
        self._graphs: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._splits: dict[int, SplitBackward] = {}

    def end(self) -> None:
        self.begin(False, 1)

    def gives(self, takes: torch.Tensor | None) -> torch.Tensor | str | None:
        """What the module makes of a tensor like `takes`; why it cannot; None if it is the model's last one."""
        if self.failure is None:
            try:
                # A module may change what it takes in place, which must not be the caller's batch.
                return self._tried(self.inputs[0].clone() if takes is None else takes.zero_())
            except BaseException as error:  # noqa: BLE001: the module's, which all ranks are told
                self.failure = error
        return f"{type(self.failure).__name__}: {self.failure}"

    def _tried(self, x: torch.Tensor) -> torch.Tensor | None:
        """Training must not see that the module was tried: not its random numbers, and not its running means."""
        buffers = [(buffer, buffer.clone()) for buffer in self.module.buffers()]
        with torch.no_grad(), torch.random.fork_rng([x.device] if x.is_cuda else []):
            try:
                y = self.module(x)
            finally:
                for buffer, before in buffers:
                    buffer.copy_(before)
        if self.is_last:
            return None
        if not isinstance(y, torch.Tensor) or not y.is_floating_point():
            given = _said((y.shape, y.dtype)) if isinstance(y, torch.Tensor) else f"a {type(y).__name__}"
            raise InvalidArgumentError(f"a chunk gives {given}: between chunks it must be one tensor of floating-point "
                                       "numbers")
        return y.detach().contiguous()  # a module may have enabled gradients itself

    def forward(self, microbatch: int, x: torch.Tensor | None, output: torch.Tensor | None) -> None:
        if x is None:
            x = self.inputs[microbatch]
        else:
            x.requires_grad_(self._training)
        with torch.set_grad_enabled(self._training):
            y = self.module(x)
            if self.loss is not None:
                y = self.loss(microbatch, y)
        if self._training:
            self._graphs[microbatch] = x, y
        result = y.detach()
        if output is None:
            # A module may return its input, which is the pipeline's memory.
            self.results.append(result.reshape(()) if self.loss is not None else result.clone())
            return
        spec, needed = (y.shape, y.dtype), (output.shape, output.dtype)
        if spec != needed:
            raise InvalidArgumentError(f"a chunk gives {_said(spec)} for micro-batch {microbatch}, but gave "
                                       f"{_said(needed)} when it was tried")
        output.copy_(result)

    def backward(self, microbatch: int, x: torch.Tensor | None, grad_output: torch.Tensor | None,
                 grad_input: torch.Tensor | None) -> None:
        taken, y = self._graphs.pop(microbatch)
        if y.requires_grad:
            torch.autograd.backward(y, self._gradient(y, grad_output))
        if grad_input is not None:
            self._write(taken.grad, grad_input)

    def backward_input(self, microbatch: int, x: torch.Tensor | None, grad_output: torch.Tensor | None,
                       grad_input: torch.Tensor | None) -> None:
        if grad_input is None:
            return
        taken, y = self._graphs[microbatch]
        split = SplitBackward(y, taken, self._gradient(y, grad_output)) if y.requires_grad else None
        if split is not None:
            self._splits[microbatch] = split
        self._write(None if split is None else split.input(), grad_input)

    def backward_weight(self, microbatch: int, x: torch.Tensor | None, grad_output: torch.Tensor | None) -> None:
        if x is None:
            return self.backward(microbatch, x, grad_output, None)
        del self._graphs[microbatch]
        if microbatch in self._splits:
            self._splits.pop(microbatch).weight()

    def _gradient(self, y: torch.Tensor, grad_output: torch.Tensor | None) -> torch.Tensor:
        return torch.full_like(y, self._share) if grad_output is None else grad_output

    @staticmethod
    def _write(grad: torch.Tensor | None, grad_input: torch.Tensor) -> None:
        if grad is None:
            grad_input.zero_()
        else:
            grad_input.copy_(grad)
