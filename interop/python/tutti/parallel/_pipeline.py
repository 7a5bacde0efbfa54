"""Pipeline parallelism: a model whose layers are divided over the ranks of a group, for PyTorch's modules."""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

from itertools import chain
from typing import Any, Callable, Iterable

import torch

from .. import _parallel
from .._errors import Error, InvalidArgumentError
from ._compute import compute_for
from ._pipeline_chunk import Chunk
from ._state import Group, current

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Pipeline:
    """Trains a model whose layers are divided over the ranks of a group, one batch a step.

    chunks: this rank's module, or a list of its modules where the schedule gives each rank several: those of the model
    whose numbers are schedule.chunks_of(rank). A module takes the tensor that the one before it gives. Shapes and types
    are found at the first step, and again when a batch has another shape.
    schedule: a name that pipeline_schedule() knows, for `microbatches` micro-batches, or what that returned.
    loss: a function of the model's output and the targets of a micro-batch that returns their mean loss. The rank of
    the model's last chunk needs it to train.
    group: the ranks; None: the pipeline-parallel group of tutti.parallel.initialize().
    batch_dim: the dimension of inputs, targets and the model's outputs that counts samples.

    A rank that raises ends the step on all: the others get an error that names it, and the group can be used no more.
    What is compared before the step raises on all ranks, and the group stays as it was: schedules, a batch that does
    not divide, a module that cannot take what the one before it gives.

    Modules may communicate, as those of tensor and expert parallelism do. A batch of another shape tries each module once
    more, so where modules communicate between replicas, all replicas change shapes in the same step.
    """

    def __init__(self, chunks: torch.nn.Module | Iterable[torch.nn.Module], *,
                 schedule: str | _parallel.PipelineSchedule = "1F1B", microbatches: int = 8, loss: Loss | None = None,
                 group: Group | None = None, batch_dim: int = 0) -> None:
        if isinstance(chunks, torch.nn.Module) and not isinstance(chunks, torch.nn.ModuleList):
            chunks = [chunks]
        modules = list(chunks)
        self.group = current().pipeline if group is None else group
        if isinstance(schedule, str):
            interleaved = len(modules) if schedule == "Interleaved1F1B" else None
            schedule = _parallel.pipeline_schedule(schedule, self.group.size, microbatches, interleaved)
        self.schedule = schedule
        self._forwards: _parallel.PipelineSchedule | None = None
        self._loss, self._batch_dim = loss, batch_dim
        self._chunks = [Chunk(module) for module in modules]
        # The places of the model's first and last chunk among this rank's. The step says if there are too few modules.
        numbers = schedule.chunks_of(self.group.rank)[:len(modules)]
        self._first = numbers.index(0) if 0 in numbers else None
        last = schedule.stages * schedule.chunks - 1
        self._last = numbers.index(last) if last in numbers else None
        # What a micro-batch of the inputs was, and whether to train, which may change the types between modules, too.
        self._taken: tuple[torch.Size, torch.dtype, bool] | None = None
        self._runner: _parallel.Pipeline | None = None

    @property
    def is_first(self) -> bool:
        """Whether this rank has the model's first chunk, which takes the inputs."""
        return self._first is not None

    @property
    def is_last(self) -> bool:
        """Whether this rank has the model's last chunk, which gives loss or outputs: by ZB-V, the first rank."""
        return self._last is not None

    def step(self, inputs: torch.Tensor | None = None, targets: torch.Tensor | None = None) -> torch.Tensor | None:
        """Does one batch, forward and backward: the mean loss where is_last, else None. Every rank calls it.

        inputs are read where is_first, targets where is_last; each is divided into micro-batches of equal size.
        Gradients of the batch's mean loss are added to the parameters' .grad, as backward() does, and with them those of
        each MoELayer's mean aux_loss, which is not in the loss returned.
        """
        losses = self._run(self.schedule, inputs, targets, training=True)
        return torch.stack(losses).mean() if self.is_last else None

    def forward(self, inputs: torch.Tensor | None = None) -> torch.Tensor | None:
        """Does the forwards of one batch: the model's outputs where is_last, else None. Every rank calls it."""
        if self._forwards is None:
            self._forwards = _parallel.forward_only(self.schedule)
        outputs = self._run(self._forwards, inputs, None, training=False)
        return torch.cat(outputs, self._batch_dim) if self.is_last else None

    def _run(self, schedule: _parallel.PipelineSchedule, inputs: torch.Tensor | None, targets: torch.Tensor | None,
             training: bool) -> list[torch.Tensor]:
        runner = self._runner = self._runner or self._make_runner(inputs)
        for chunk in self._chunks:
            chunk.begin(training, 1 / schedule.microbatches)
        taken = self._taken
        try:
            if self._first is not None:
                parts = self._chunks[self._first].inputs = self._divided("inputs", inputs)
                taken = parts[0].shape, parts[0].dtype, training
            if self._last is not None:
                self._chunks[self._last].is_last = True
                if training:
                    self._chunks[self._last].loss = self._losses(self._divided("targets", targets))
        except InvalidArgumentError as error:
            # The others wait for this rank, and get the error when they ask it.
            for chunk in self._chunks:
                chunk.failure = error
        if taken != self._taken or any(chunk.failure is not None for chunk in self._chunks):
            runner.ask_again()
        failure: BaseException | None = None
        try:
            runner.run(schedule)
            self._taken = taken
            return [] if self._last is None else self._chunks[self._last].results
        except Error as error:
            failure = next((chunk.failure for chunk in self._chunks if chunk.failure is not None), error)
        finally:
            for chunk in self._chunks:
                chunk.end()
        raise failure

    def _make_runner(self, inputs: torch.Tensor | None) -> _parallel.Pipeline:
        modules = [chunk.module for chunk in self._chunks]
        owned = chain.from_iterable(chain(module.parameters(), module.buffers()) for module in modules)
        some = next(owned, None)
        if some is None:
            some = torch.empty(0) if inputs is None else inputs
        return _parallel.Pipeline(self.group, compute_for(some), list(self._chunks))

    def _divided(self, what: str, batch: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
        microbatches, dim = self.schedule.microbatches, self._batch_dim
        if not isinstance(batch, torch.Tensor) or batch.dim() <= dim:
            kind = (f"a tensor of {batch.dim()} dimensions" if isinstance(batch, torch.Tensor) else
                    "None" if batch is None else f"a {type(batch).__name__}")
            raise InvalidArgumentError(f"{what} is {kind}: rank {self.group.rank} of the pipeline needs a tensor with "
                                       f"the batch in dimension {dim}")
        samples = batch.shape[dim]
        if samples == 0 or samples % microbatches:
            raise InvalidArgumentError(f"{what} has {samples} samples in dimension {dim}, which {microbatches} "
                                       "micro-batches do not divide")
        parts: tuple[torch.Tensor, ...] = batch.split(samples // microbatches, dim)
        return parts

    def _losses(self, targets: tuple[torch.Tensor, ...]) -> Callable[[int, torch.Tensor], torch.Tensor]:
        loss = self._loss
        if loss is None:
            raise InvalidArgumentError(f"rank {self.group.rank} of the pipeline has the model's last chunk: it needs "
                                       "loss= to train")

        def of(microbatch: int, output: torch.Tensor) -> torch.Tensor:
            value = loss(output, targets[microbatch])
            if value.numel() != 1:
                raise InvalidArgumentError(f"the loss has the shape {list(value.shape)}: it must be one number, the "
                                           "mean of its micro-batch")
            return value

        return of
