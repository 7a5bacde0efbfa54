#!/usr/bin/env python3
"""Measures how much of DDP's communication overlaps with its computation, over a slow link.

    scripts/cluster.sh --hosts 2 --bandwidth 1gbit python3 interop/torch/bench/overlap.py

Times, in turn: the communication of all buckets alone, a step that only computes, and a step of
DistributedDataParallel, which does both. Ideally, the last takes as long as the longer of the other two, plus the last
bucket, which no computation can hide. --trace FOLDER writes PyTorch's timeline of a step of rank 0 (chrome://tracing),
with separate rows for compute and `tutti:all_reduce`.
"""

import argparse
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import tutti_torch

MIB = 1 << 20


def milliseconds(seconds):
    return f"{1000 * seconds:.0f} ms"


def timed(what, repeats):
    """The median over repeats of the slowest rank's time."""
    times = []
    for _ in range(repeats):
        dist.barrier()
        begin = time.perf_counter()
        what()
        mine = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
        dist.all_reduce(mine, dist.ReduceOp.MAX)
        times.append(mine.item())
    return statistics.median(times), max(times) - min(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="tutti")
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--bucket", type=int, default=8, help="bucket size in MiB")
    parser.add_argument("--batch", type=int, default=0, help="0: such that computation takes as long as communication")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--trace", help="folder for the timeline")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group(arguments.backend)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    layers = []
    for _ in range(arguments.layers):
        layers += [torch.nn.Linear(arguments.width, arguments.width, bias=False), torch.nn.ReLU()]
    model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=arguments.bucket)
    size = sum(parameter.numel() * 4 for parameter in model.parameters())
    buckets = [torch.ones(min(arguments.bucket * MIB, size - begin) // 4)
               for begin in range(0, size, arguments.bucket * MIB)]

    def communicate():
        for work in [dist.all_reduce(bucket, async_op=True) for bucket in buckets]:
            work.wait()

    def step(batch):
        model(batch).square().mean().backward()

    def compute(batch):
        with model.no_sync():
            step(batch)

    timed(communicate, 2)
    communication, communication_spread = timed(communicate, arguments.repeats)
    rows = arguments.batch or 64
    batch = torch.randn(rows, arguments.width)
    timed(lambda: step(batch), 2)  # warm-up: DDP arranges its buckets after the first step
    if not arguments.batch:
        computing, _ = timed(lambda: compute(batch), 3)
        chosen = torch.tensor([max(16, int(rows * communication / computing))])
        dist.broadcast(chosen, 0)
        batch = torch.randn(int(chosen), arguments.width)
        timed(lambda: step(batch), 2)
    computing, computing_spread = timed(lambda: compute(batch), arguments.repeats)
    both, both_spread = timed(lambda: step(batch), arguments.repeats)
    last = communication / len(buckets)
    bound = 1.1 * max(computing, communication) + last
    if rank == 0:
        print(f"PyTorch {torch.__version__}, {arguments.backend}, Tutti {tutti_torch.library_version()}, {ranks} ranks; "
              f"{size / MIB:.0f} MiB of gradients in {len(buckets)} buckets; batch {len(batch)}; medians of "
              f"{arguments.repeats}, slowest rank; load {os.getloadavg()[0]:.1f}")
        print(f"compute {milliseconds(computing)} (spread {milliseconds(computing_spread)}), "
              f"communication {milliseconds(communication)} (spread {milliseconds(communication_spread)}), "
              f"a step of DDP {milliseconds(both)} (spread {milliseconds(both_spread)})")
        print(f"1.1 max(compute, communication) + last bucket = {milliseconds(bound)}: "
              f"{'within' if both <= bound else 'NOT within'}; one after the other would be "
              f"{milliseconds(computing + communication)}", flush=True)
    if arguments.trace:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            step(batch)
        if rank == 0:
            os.makedirs(arguments.trace, exist_ok=True)
            profile.export_chrome_trace(os.path.join(arguments.trace, "overlap.json"))
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
