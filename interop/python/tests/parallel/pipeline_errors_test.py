"""Pipelines of PyTorch's modules in which something is wrong: every rank is told."""

from pathlib import Path

import pytest
import ranks

import tutti

pytest.importorskip("tutti.parallel", exc_type=ImportError)
torch = pytest.importorskip("torch")
import tutti.parallel as tp  # noqa: E402
from pipeline_test import SCHEDULES, WIDTH, Block, batch_of, loss_of  # noqa: E402


class Raises(torch.nn.Module):
    """Raises in the micro-batch's forward, or in its backward."""

    def __init__(self, module, forward=None, backward=None):
        super().__init__()
        self.module, self.raising = module, (forward, backward)
        self.calls = [0, 0]

    def count(self, which):
        self.calls[which] += 1
        if self.calls[which] - 1 == self.raising[which]:
            raise ValueError("a loss of NaN")

    def forward(self, x):
        if torch.is_grad_enabled():
            self.count(0)
        y = self.module(x)
        if y.requires_grad:
            y.register_hook(lambda grad: self.count(1))
        return y


def raising(comm, name, chunks, stage, where, folder):
    torch.set_num_threads(1)
    signs = ranks.Signs(folder)
    with tp.initialize(comm, pipeline_parallel_size=comm.size):
        schedule = tp.pipeline_schedule(name, comm.size, 4, chunks)
        modules = [Block(number) for number in schedule.chunks_of(comm.rank)]
        if comm.rank == stage:
            modules[-1] = Raises(modules[-1], **where)
        pipe = tp.Pipeline(modules, schedule=schedule, loss=loss_of)
        with pytest.raises(ValueError if comm.rank == stage else tutti.RemoteError) as raised:
            for _ in range(2):  # a stage that has done its part gets the error at its next step
                pipe.step(*batch_of(4))
        assert "a loss of NaN" in str(raised.value) if comm.rank == stage else f"rank {stage}" in str(raised.value)
        # Nobody leaves before all know: else a rank would be named that left.
        signs.give(str(comm.rank))
        for rank in range(comm.size):
            signs.wait_for(str(rank))


@pytest.mark.parametrize("where", [{"forward": 2}, {"backward": 1}], ids=["forward", "backward"])
@pytest.mark.parametrize("name,chunks", SCHEDULES)
def test_a_stage_that_raises_is_named_on_all(name, chunks, where, tmp_path):
    ranks.run(3, raising, name, chunks, 1, where, str(tmp_path))


def disagreeing(comm):
    torch.set_num_threads(1)
    said = []
    rank, last = comm.rank, comm.size - 1
    inputs, targets = batch_of(4)

    def error_of(modules, inputs=inputs, targets=targets, loss=loss_of, **options):
        pipe = tp.Pipeline(modules, loss=loss, **{"microbatches": 4, **options})
        with pytest.raises((tutti.Error, RuntimeError)) as raised:
            pipe.step(inputs, targets)
        said.append((type(raised.value), str(raised.value)))

    with tp.initialize(comm, pipeline_parallel_size=comm.size):
        error_of(Block(rank), microbatches=4 if rank != 1 else 2)
        error_of(Block(rank), schedule="GPipe" if rank == last else "1F1B")
        error_of(Block(rank), inputs[:10])
        error_of(Block(rank), inputs, targets[:7])
        error_of(Block(rank), None)
        error_of(Block(rank), loss=None)
        error_of(Block(rank if rank != 1 else 3))
        error_of(Block(rank) if rank != 1 else Tuple())
        error_of([Block(rank)] * (2 if rank == 1 else 1))
        error_of([Block(rank)] * (2 if rank == 1 else 1), schedule="Interleaved1F1B")
        error_of(Block(rank), schedule="ZB-V")
        error_of(Block(rank), schedule=tp.pipeline_schedule("1F1B", 2, 4))
        # The group still works, and a step that failed is done again.
        pipe = tp.Pipeline(Block(rank), microbatches=4, loss=loss_of)
        pipe.step(inputs, targets)
        with pytest.raises(tutti.InvalidArgumentError):
            pipe.step(inputs[:9], targets)
        pipe.step(*batch_of(8))
        pipe.step(inputs, targets)
    return said


class Tuple(torch.nn.Module):
    def forward(self, x):
        return x, x


def test_ranks_that_disagree_all_raise():
    for rank, said in enumerate(ranks.run(3, disagreeing)):
        kinds, texts = zip(*said)
        assert "microbatches is 4 on stage 0, but 2 on stage 1" in texts[0]
        assert '"1F1B" on stage 0, but "GPipe" on stage 2' in texts[1]
        assert "10 samples" in texts[2] and "4 micro-batches" in texts[2] and (rank == 0 or "stage 0" in texts[2])
        assert "targets" in texts[3] and "7 samples" in texts[3] and (rank == 2 or "stage 2" in texts[3])
        assert "inputs is None" in texts[4]
        assert "loss=" in texts[5]
        assert "size of tensor" in texts[6] and (rank == 1 or "stage 1: RuntimeError" in texts[6])
        assert "gives a tuple" in texts[7]
        assert "1 model chunks a stage" in texts[8] and "given 2 chunks" in texts[8] and "stage 1" in texts[8]
        assert "model chunks a stage is 1 on stage 0, but 2 on stage 1" in texts[9]
        assert "2 model chunks a stage" in texts[10] and "given 1 chunks" in texts[10]
        assert "2 stages" in texts[11] and "3 ranks" in texts[11]
        assert kinds[6] is (RuntimeError if rank == 1 else tutti.InvalidArgumentError)
        assert all(issubclass(kind, tutti.Error) for place, kind in enumerate(kinds) if place != 6)


class Trial(torch.nn.Module):
    """Fails, or enables gradients, in its trial, after it has changed its buffer."""

    def __init__(self, what):
        super().__init__()
        self.what, self.tries = what, 0
        self.linear = torch.nn.Linear(WIDTH, WIDTH)
        self.register_buffer("mean", torch.zeros(1))

    def forward(self, x):
        self.mean += 1
        if not torch.is_grad_enabled():
            self.tries += 1
            if isinstance(self.what, BaseException) and self.tries == 1:
                raise self.what
        with torch.enable_grad():
            return self.linear(x)


def trying(comm, what):
    torch.set_num_threads(1)
    with tp.initialize(comm, pipeline_parallel_size=2):
        module = Trial(what) if comm.rank == 0 else torch.nn.Linear(WIDTH, 1)
        pipe = tp.Pipeline(module, microbatches=4, loss=loss_of)
        if what is not None:
            with pytest.raises(type(what) if comm.rank == 0 else tutti.Error) as raised:
                pipe.step(*batch_of(4))
            text = "bye" if comm.rank == 0 else f"stage 0: {type(what).__name__}: bye"
            assert str(raised.value) == text
            assert comm.rank != 0 or module.mean == 0
        pipe.step(*batch_of(4))
        assert comm.rank != 0 or module.mean == 4


@pytest.mark.parametrize("what", [None, ValueError("bye"), SystemExit("bye")], ids=["gradients", "error", "exit"])
def test_a_trial_leaves_no_trace(what):
    ranks.run(2, trying, what)


def without_memory(comm):
    from tutti.parallel import _torch_compute
    torch.set_num_threads(1)

    def allocate(*_):
        raise torch.cuda.OutOfMemoryError("CUDA is out of memory")

    with tp.initialize(comm, pipeline_parallel_size=2):
        pipe = tp.Pipeline(torch.nn.Linear(WIDTH, WIDTH) if comm.rank == 0 else torch.nn.Linear(WIDTH, 1),
                           microbatches=4, loss=loss_of)
        pipe.step(*batch_of(4))
        kept, taken = _torch_compute.TorchCompute.allocate, []
        if comm.rank == 1:
            # The first of the trial's own, which is not of the pipeline.
            def allocate_once(self, size):
                taken.append(size)
                return kept(self, size) if len(taken) == 1 else allocate()
            _torch_compute.TorchCompute.allocate = allocate_once
        with pytest.raises(tutti.InvalidArgumentError) as raised:
            pipe.step(*batch_of(16))
        _torch_compute.TorchCompute.allocate = kept
        for _ in range(2):
            pipe.step(*batch_of(4))
        return str(raised.value)


def test_a_stage_without_memory_is_named_and_the_shapes_of_before_go_on():
    for said in ranks.run(2, without_memory):
        assert said == "stage 1: OutOfMemoryError: CUDA is out of memory"


def changing(comm):
    """A module whose output changes within a batch."""
    torch.set_num_threads(1)

    class Growing(torch.nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return x.repeat(1, 2 if self.calls > 3 else 1)

    with tp.initialize(comm, pipeline_parallel_size=2):
        pipe = tp.Pipeline(Growing() if comm.rank == 0 else torch.nn.Linear(WIDTH, 1), microbatches=4, loss=loss_of)
        with pytest.raises(tutti.Error) as raised:
            pipe.step(*batch_of(4))
        return str(raised.value)


def changing_in_place(comm):
    with tp.initialize(comm, pipeline_parallel_size=2):
        pipe = tp.Pipeline(Doubles() if comm.rank == 0 else torch.nn.Identity(), microbatches=4)
        outputs = [pipe.forward(torch.ones(4, 1)) for _ in range(2)]
        return [one.flatten().tolist() for one in outputs if one is not None]


class Doubles(torch.nn.Module):
    def forward(self, x):
        return x.mul_(2)


def test_a_trial_leaves_the_batch_as_it_is():
    assert ranks.run(2, changing_in_place)[1] == [[2] * 4] * 2


def test_a_shape_that_changes_within_a_batch():
    said = ranks.run(2, changing)
    assert "[3, 10]" in said[0] and "[3, 5]" in said[0] and "micro-batch 2" in said[0]
    assert "rank 0" in said[1]


class Calls(torch.nn.Module):
    """Calls a communicator in its forward, and not as the other rank does."""

    def __init__(self, module, comm):
        super().__init__()
        self.module, self.comm = module, comm

    def forward(self, x):
        if torch.is_grad_enabled():
            values = torch.zeros(8)
            if self.comm.rank == 0:
                self.comm.all_reduce(values)  # reduces
            else:
                self.comm.all_gather(values)  # gathers
        return self.module(x)


def calling(comm):
    torch.set_num_threads(1)
    own = comm.split(0, comm.rank)
    with tp.initialize(comm, pipeline_parallel_size=1):
        pipe = tp.Pipeline(Calls(torch.nn.Linear(2, 2), own), microbatches=1, loss=torch.nn.functional.mse_loss)
        with pytest.raises(tutti.Error) as raised:
            pipe.step(torch.zeros(1, 2), torch.zeros(1, 2))
    return str(raised.value)


def test_a_modules_own_calls_have_its_lines():
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    for text in ranks.run(2, calling):
        for mark in ["reduces", "gathers"]:
            (number,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"  # {mark}")]
            assert f" at {Path(__file__).name}:{number} in forward" in text, text
