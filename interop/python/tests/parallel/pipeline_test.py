"""Pipelines of PyTorch's modules beside one rank that accumulates the same micro-batches."""

import os
import pathlib

import pytest
import ranks

import tutti

pytest.importorskip("tutti.parallel", exc_type=ImportError)
import tutti.parallel as tp  # noqa: E402

torch = pytest.importorskip("torch")
# PyTorch imports much at its first backward from a given gradient: once here, before the ranks are forked.
torch.autograd.backward(torch.zeros(1, requires_grad=True), torch.ones(1))

SCHEDULES = [("GPipe", 1), ("1F1B", 1), ("Interleaved1F1B", 3), ("ZB-H1", 1), ("ZB-V", 2)]
SAMPLES, WIDTH = 3, 5  # of a micro-batch


class Block(torch.nn.Module):
    """A layer whose output has another shape than its input, and one parameter that it does not use."""

    def __init__(self, number):
        super().__init__()
        torch.manual_seed(number)
        self.layers = torch.nn.Sequential(torch.nn.Linear(WIDTH + number, 7), torch.nn.GELU(),
                                          torch.nn.Linear(7, WIDTH + number + 1))
        self.scale = torch.nn.Parameter(torch.randn(WIDTH + number))
        self.unused = torch.nn.Parameter(torch.zeros(2))

    def forward(self, x):
        return self.layers(x * self.scale)


def loss_of(output, targets):
    return torch.nn.functional.mse_loss(output.sum(1), targets)


def batch_of(microbatches, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(SAMPLES * microbatches, WIDTH, generator=generator),
            torch.randn(SAMPLES * microbatches, generator=generator))


def whole(blocks, microbatches, seed=0):
    """The losses' mean and the gradients, as one rank accumulates them."""
    model = torch.nn.Sequential(*blocks)
    inputs, targets = batch_of(microbatches, seed)
    losses = []
    for x, target in zip(inputs.split(SAMPLES), targets.split(SAMPLES)):
        loss = loss_of(model(x), target)
        (loss / microbatches).backward()
        losses.append(loss.detach())
    return torch.stack(losses).mean(), [[parameter.grad for parameter in block.parameters()] for block in blocks]


def same(found, expected):
    assert (found is None) == (expected is None)
    if found is not None:
        assert torch.equal(found, expected)


def trained(comm):
    torch.set_num_threads(1)
    with tp.initialize(comm, pipeline_parallel_size=comm.size):
        for name, chunks in SCHEDULES:
            for microbatches in (1, 3, 4, 10):
                schedule = tp.pipeline_schedule(name, comm.size, microbatches, chunks)
                mine = schedule.chunks_of(comm.rank)
                pipe = tp.Pipeline([Block(number) for number in mine], schedule=schedule, loss=loss_of)
                blocks = [Block(number) for number in range(comm.size * chunks)]
                for seed in (0, 1):  # gradients add up
                    loss = pipe.step(*batch_of(microbatches, seed))
                    expected, grads = whole(blocks, microbatches, seed)
                    assert pipe.is_last == (len(blocks) - 1 in mine) and pipe.is_first == (0 in mine)
                    same(loss, expected if pipe.is_last else None)
                for number, chunk in zip(mine, pipe._chunks):
                    for parameter, grad in zip(chunk.module.parameters(), grads[number]):
                        same(parameter.grad, grad)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_losses_and_gradients_are_one_ranks(size):
    ranks.run(size, trained)


def inference(comm):
    torch.set_num_threads(1)
    with tp.initialize(comm, pipeline_parallel_size=comm.size):
        for name, chunks in SCHEDULES:
            schedule = tp.pipeline_schedule(name, comm.size, 4, chunks)
            mine = [Block(number) for number in schedule.chunks_of(comm.rank)]
            pipe = tp.Pipeline(mine, schedule=schedule, loss=loss_of)
            model = torch.nn.Sequential(*[Block(number) for number in range(comm.size * chunks)])
            inputs, targets = batch_of(4)
            for samples in (12, 8, 12):  # shapes are found again
                outputs = pipe.forward(inputs[:samples] if pipe.is_first else None)
                same(outputs, torch.cat([model(x) for x in inputs[:samples].split(samples // 4)]).detach()
                     if pipe.is_last else None)
            pipe.step(inputs, targets)


class Counted(torch.autograd.Function):
    """x itself; counts its backwards."""

    calls = 0

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        Counted.calls += 1
        return grad


class Twisted(torch.nn.Module):
    """A parameter used twice, one by way of another operation, two ways from the input, operations with two results."""

    def __init__(self):
        super().__init__()
        self.twice, self.normed, self.last = (torch.nn.Parameter(torch.randn(4, 4)) for _ in range(3))

    def forward(self, x):
        middle = torch.tanh(x @ self.twice) @ (self.normed / self.normed.norm())
        low, high = torch.sort(Counted.apply(middle) + x, dim=1)[0].chunk(2, 1)
        return torch.relu(torch.cat([high, low * x[:, :2]], 1) @ self.twice) @ self.last + self.last.sum()


def test_a_backward_in_two_parts():
    from tutti.parallel._pipeline_split import _BEGINS_ANYWHERE, SplitBackward

    def gradients(make, way):
        torch.manual_seed(1)
        model = make()
        x = torch.randn(3, 4, generator=torch.Generator().manual_seed(2)).requires_grad_()
        y = model(x)
        grad = torch.randn(y.shape, generator=torch.Generator().manual_seed(3))
        grad_x = way(y, x, grad)
        return grad_x, [parameter.grad for parameter in model.parameters()]

    def whole_way(y, x, grad):
        y.backward(grad)
        return x.grad

    def split_way(y, x, grad):
        split = SplitBackward(y, x, grad)
        result = split.input()
        split.weight()
        assert x.grad is None
        return result

    for make in (Twisted, Beside, torch.nn.Identity, lambda: torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4))):
        expected, found = gradients(make, whole_way), gradients(make, split_way)
        same(found[0], expected[0])
        assert len(found[1]) == len(expected[1])
        for one, other in zip(found[1], expected[1]):
            assert torch.allclose(one, other, rtol=1e-6, atol=1e-6)
    # Only layers with parameters compute again in the second part, where PyTorch can begin there.
    Counted.calls = 0
    gradients(lambda: torch.nn.Sequential(torch.nn.Linear(4, 4), Activation(), torch.nn.Linear(4, 4)), split_way)
    assert Counted.calls == (1 if _BEGINS_ANYWHERE else 2)
    Counted.calls = 0
    gradients(Beside, split_way)
    assert Counted.calls == (1 if _BEGINS_ANYWHERE else 2)


class Activation(torch.nn.Module):
    def forward(self, x):
        return Counted.apply(x)


class Keeping(torch.nn.Linear):
    """Keeps what it takes."""

    def __init__(self, width):
        super().__init__(width, width)
        self.kept = []

    def forward(self, x):
        self.kept.append(x.detach())
        return super().forward(x)


def keeping(comm):
    torch.set_num_threads(1)
    with tp.initialize(comm, pipeline_parallel_size=comm.size):
        module = Keeping(64)
        pipe = tp.Pipeline(module, microbatches=2, loss=lambda output, target: (output - target).square().mean())
        kept = []
        for rows in (4096, 2048, 1024, 4096):  # the pipeline's memory for other numbers is freed
            x = torch.full((rows, 64), float(rows))
            pipe.step(x, x)
            kept.append((module.kept[-1], module.kept[-1].clone()))
        for x, then in kept:
            assert torch.equal(x, then)


def test_a_module_may_keep_what_it_takes():
    ranks.run(2, keeping)


class Beside(torch.nn.Module):
    """Parts of one parameter are used side by side, as experts are, behind an operation that may communicate."""

    def __init__(self):
        super().__init__()
        self.parts = torch.nn.Parameter(torch.randn(3, 4, 4))

    def forward(self, x):
        return Counted.apply(torch.cat([row @ part for row, part in zip(x.split(1), self.parts.unbind())]))


@pytest.mark.parametrize("size", [1, 2, 4])
def test_forward_alone(size):
    ranks.run(size, inference)


class Embedded(torch.nn.Module):
    """Layers with state, random numbers, frozen parameters, and a batch in the second dimension."""

    def __init__(self, number):
        super().__init__()
        torch.manual_seed(number)
        self.first = torch.nn.Embedding(11, 4) if number == 0 else torch.nn.Identity()
        self.first.requires_grad_(False)
        self.layer = torch.nn.Linear(4, 4, bias=False)  # a bias's gradient would be 0 before the norm
        self.layer.weight.requires_grad_(number != 0)
        self.norm = torch.nn.BatchNorm1d(4)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x):
        x = self.layer(self.first(x))
        return self.drop(self.norm(x.transpose(1, 2)).transpose(1, 2)).double()


class Narrowed(Embedded):
    def forward(self, x):
        return super().forward(x.float() if x.is_floating_point() else x)


def stateful(comm):
    torch.set_num_threads(1)
    ids, targets = torch.arange(24).view(3, 8) % 11, torch.randn(3, 8, generator=torch.Generator().manual_seed(1))

    def loss(output, target):
        return ((output.sum(2) - target)**2).mean()

    with tp.initialize(comm, pipeline_parallel_size=comm.size):
        for name in ("1F1B", "ZB-H1"):
            mine = Narrowed(comm.rank)
            pipe = tp.Pipeline(mine, schedule=name, microbatches=4, loss=loss, batch_dim=1)
            torch.manual_seed(7)
            pipe.step(ids, targets)
            # Each stage draws from its own generator, so stage by stage.
            streams, blocks = [], [Narrowed(number) for number in range(comm.size)]
            for _ in blocks:
                torch.manual_seed(7)
                streams.append(torch.get_rng_state())
            for x, target in zip(ids.split(2, 1), targets.split(2, 1)):
                for number, block in enumerate(blocks):
                    torch.set_rng_state(streams[number])
                    x = block(x)
                    streams[number] = torch.get_rng_state()
                (loss(x, target) / 4).backward()
            for parameter, reference in zip(mine.parameters(), blocks[comm.rank].parameters()):
                assert (parameter.grad is None) == (reference.grad is None)
                if parameter.grad is not None:  # the pipeline's tensors are contiguous, which sums in another order
                    assert torch.allclose(parameter.grad, reference.grad, rtol=1e-5, atol=1e-6)
            assert torch.allclose(mine.norm.running_mean, blocks[comm.rank].norm.running_mean)
            assert mine.norm.num_batches_tracked == 4


def test_trying_a_module_leaves_no_trace():
    ranks.run(3, stateful)


def with_tensor_parallelism(comm, stages, name):
    torch.set_num_threads(1)
    with tp.initialize(comm, tensor_parallel_size=comm.size // stages, pipeline_parallel_size=stages):
        schedule = tp.pipeline_schedule(name, stages, 2)
        numbers = schedule.chunks_of(tp.current().pipeline.rank)
        torch.manual_seed(5)
        all_layers = [tp.ParallelMLP(8, 16) for _ in range(4)]
        each = 4 // (stages * schedule.chunks)
        mine = torch.nn.ModuleList(torch.nn.Sequential(*all_layers[number * each:(number + 1) * each])
                                   for number in numbers)
        pipe = tp.Pipeline(mine, schedule=schedule, loss=torch.nn.functional.mse_loss)
        losses = []
        for _ in range(3):
            loss = pipe.step(torch.ones(4, 8), torch.arange(32.0).view(4, 8) / 32)
            losses.append(None if loss is None else loss.item())
            with torch.no_grad():
                for parameter in mine.parameters():
                    parameter -= parameter.grad
                    parameter.grad = None
        return losses if pipe.is_last else None


def test_tensor_parallel_layers_in_the_stages():
    expected, = ranks.run(1, with_tensor_parallelism, 1, "1F1B")
    assert expected[2] < expected[1] < expected[0]
    for name in ("1F1B", "ZB-H1", "ZB-V"):
        found = [losses for losses in ranks.run(4, with_tensor_parallelism, 2, name) if losses is not None]
        assert len(found) == 2
        for losses in found:
            assert losses == pytest.approx(expected, rel=1e-5)


def test_schedules_as_data(tmp_path):
    schedule = tp.pipeline_schedule("ZB-V", 4, 8)
    assert (schedule.name, schedule.stages, schedule.microbatches, schedule.chunks) == ("ZB-V", 4, 8, 2)
    assert [schedule.chunks_of(stage) for stage in range(4)] == [[0, 7], [1, 6], [2, 5], [3, 4]]
    assert tp.pipeline_schedule("Interleaved1F1B", 4, 7).chunks_of(1) == [1, 5]
    # The papers' bubbles, in units of one chunk's pass.
    assert schedule.bubble_fraction() == pytest.approx(3 / (6 * 8 + 3))
    assert tp.pipeline_schedule("ZB-H1", 4, 8).bubble_fraction() == pytest.approx(3 / (3 * 8 + 3))
    assert tp.pipeline_schedule("1F1B", 4, 8).bubble_fraction(1, 3) == pytest.approx(3 / 11)
    path = os.path.join(tmp_path, "chart.svg")
    text = tp.pipeline_schedule("1F1B", 2, 3).draw(path)
    assert text.splitlines()[1:] == ["stage 0 |F0|F1|......B0   |F2|B1   |...B2   |",
                                     "stage 1 |...F0|B0   |F1|B1   |F2|B2   |......"]
    with open(path, encoding="utf-8") as file:
        assert file.read().count(">2</text>") == 4
    for name, chunks, words in (("ZB-X", None, "ZB-V"), ("1F1B", 2, "1 model chunk"), ("ZB-V", 1, "2 model chunks")):
        with pytest.raises(tutti.InvalidArgumentError, match=words):
            tp.pipeline_schedule(name, 4, 8, chunks)


def example(comm, code, folder):
    torch.set_num_threads(1)
    os.chdir(folder)
    names = {"comm": comm}
    exec(code.replace("initialize(", "initialize(comm, "), names)  # noqa: S102: the page's
    return names["pipe"].is_last, None if names["outputs"] is None else tuple(names["outputs"].shape)


def test_the_pages_example_runs(tmp_path):
    page = pathlib.Path(__file__).parents[4] / "docs/parallel_pipeline.md"
    if not page.exists():
        pytest.skip("needs the source tree")
    # The optimiser imports much at its first use: once here.
    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1).zero_grad()
    code = page.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    assert ranks.run(4, example, code, str(tmp_path)) == [(True, (32, 16))] + [(False, None)] * 3
    assert "ZB-V: 4 stages of 2 chunks" in (tmp_path / "chart.svg").read_text(encoding="utf-8")
