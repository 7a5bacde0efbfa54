"""tutti.parallel beside what PyTorch has, on the CPU: milliseconds a training step, or microseconds a step of decoding.

    examples/run.sh RANKS python3 interop/python/bench/parallel_peers.py [ddp fsdp tensor pipeline decode] [--rounds 40]

Every rank runs both by turns, on one thread: Tutti, and PyTorch over Gloo, on the same model and the same data. A line has
the medians of rank 0 over all rounds, the ratio of them, and the quartiles of the rounds' ratios. decode also prints one
rank alone, without a group. Needs PyTorch 2.6 or newer.
"""

import argparse
import contextlib
import datetime
import os
import pathlib
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

import tutti.parallel as tp

HIDDEN, WIDE, BLOCKS, TOKENS = 256, 1024, 4, 256
MICROBATCHES = 8


class Block(nn.Module):

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, WIDE), nn.Linear(WIDE, HIDDEN)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def blocks():
    torch.manual_seed(1)
    return nn.Sequential(*(Block() for _ in range(BLOCKS)))


def trainer(model, parameters=None):
    """A step of training of a data-parallel model."""
    optimizer = torch.optim.SGD(model.parameters() if parameters is None else parameters, lr=1e-4)
    x = torch.randn(TOKENS, HIDDEN)

    def step():
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return step


def ddp():
    return trainer(tp.DistributedDataParallel(blocks())), trainer(nn.parallel.DistributedDataParallel(blocks()))


def fsdp():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    theirs, mesh = blocks(), init_device_mesh("cpu", (dist.get_world_size(),))
    for block in theirs:
        fully_shard(block, mesh=mesh)
    fully_shard(theirs, mesh=mesh)
    ours = blocks()
    return trainer(tp.FullyShardedDataParallel(ours, units=list(ours), stage=3)), trainer(theirs)


def tensor(group):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    theirs, mesh = blocks(), init_device_mesh("cpu", (dist.get_world_size(),))
    for block in theirs:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    ours = blocks()
    for block in ours:
        block.up = tp.ColumnParallelLinear(HIDDEN, WIDE, group=group)
        block.down = tp.RowParallelLinear(WIDE, HIDDEN, group=group)
    return trainer(ours), trainer(theirs)


def pipeline():
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B
    rank, size = dist.get_rank(), dist.get_world_size()
    share = BLOCKS // size

    def mine():
        return nn.Sequential(*list(blocks())[rank * share:(rank + 1) * share])

    def loss(output, target):
        return (output - target).square().mean()

    x, target = torch.randn(8 * TOKENS, HIDDEN), torch.randn(8 * TOKENS, HIDDEN)
    ours, theirs = mine(), mine()
    pipe = tp.Pipeline(ours, schedule="1F1B", microbatches=MICROBATCHES, loss=loss)
    schedule = Schedule1F1B(PipelineStage(theirs, rank, size, torch.device("cpu")), MICROBATCHES, loss)

    def our_step():
        pipe.step(x, target)
        ours.zero_grad()

    def their_step():
        schedule.step(*([x] if rank == 0 else []), **({"target": target} if rank == size - 1 else {}))
        theirs.zero_grad()
    return our_step, their_step


class GlooLinear(nn.Module):
    """A split linear layer's forward, over Gloo."""

    def __init__(self, layer):
        super().__init__()
        self.weight, self.bias, self.sums = layer.weight, layer.bias, isinstance(layer, tp.RowParallelLinear)

    def forward(self, x):
        if not self.sums:
            return nn.functional.linear(x, self.weight, self.bias)
        y = nn.functional.linear(x, self.weight)
        dist.all_reduce(y)
        return y + self.bias


def decode(sequences, alone):
    """A step of one token of each sequence, by examples/gpt with and without Gloo in its blocks; or of one rank alone."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "examples/gpt"))
    import generate
    sizes = generate.parse(["", "-tp", "1", "--hidden", str(HIDDEN), "--heads", "8", "--layers", "4", "--length", "256"])
    ids, slots, starts = torch.zeros(1, sequences, dtype=torch.int64), list(range(sequences)), [100] * sequences

    def stepper(parallel, gloo=False):
        engine = generate.Engine(sizes, parallel, sequences)
        for layer in engine.stage.layers.values() if gloo else ():
            for part, names in ((layer.attention, ("qkv", "out")), (layer.mlp, ("up", "down"))):
                for name in names:
                    setattr(part, name, GlooLinear(getattr(part, name)))
        return lambda: engine.step(ids, slots, starts)
    return stepper(tp.current()), stepper(tp.current(), not alone)


def compare(name, ours, theirs, rounds, unit, scale):
    times = {ours: [], theirs: []}
    for turn in range(rounds + 5):
        for step in (ours, theirs) if turn % 2 else (theirs, ours):
            dist.barrier()
            began = time.perf_counter()
            step()
            if turn >= 5:
                times[step].append((time.perf_counter() - began) * scale)
    if dist.get_rank() == 0:
        mine, other = (statistics.median(times[step]) for step in (ours, theirs))
        quartiles = statistics.quantiles([a / b for a, b in zip(times[ours], times[theirs])], n=4)
        print(f"{name:<22}{dist.get_world_size():>6} ranks {mine:>10.2f} {other:>10.2f} {unit}  {mine / other:.2f}"
              f"  {quartiles[0]:.2f} to {quartiles[2]:.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", default=["ddp", "fsdp", "tensor", "pipeline", "decode"])
    parser.add_argument("--rounds", type=int, default=40)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with contextlib.suppress(KeyError):
        del os.environ["OMP_NUM_THREADS"]
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    size = dist.get_world_size()
    if dist.get_rank() == 0:
        print(f"{'':<34}{'Tutti':>10} {'PyTorch':>10}", flush=True)
    milliseconds = "ms", 1e3
    for kind in arguments.kinds:
        sizes = {"tensor": {"tensor_parallel_size": size}, "decode": {"tensor_parallel_size": size},
                 "pipeline": {"pipeline_parallel_size": size}}.get(kind, {})
        with tp.initialize(**sizes) as parallel:
            if kind == "decode":
                for sequences in (1, 4, 16):
                    steps = decode(sequences, size == 1)
                    compare(f"decode of {sequences}", *steps, arguments.rounds, "us", 1e6)
                continue
            steps = {"ddp": ddp, "fsdp": fsdp, "tensor": lambda: tensor(parallel.tensor), "pipeline": pipeline}[kind]()
            compare(kind, *steps, arguments.rounds, *milliseconds)
            del steps
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
