#!/usr/bin/env python3
"""Compares Tutti with Gloo through PyTorch: every call, size and number of ranks, with all backends interleaved.

    python3 interop/torch/bench/bench.py [--ranks 2 4] [--sizes 8 4096 67108864] [--types float32] [--calls NAME ...]
                                         [--beside gloo vllm deepspeed] [--repeats 9] [--json FILE]

Each rank has a group of each backend. A repeat times all backends in turn, in alternating order. It starts with a
barrier and makes enough calls to take about --milliseconds. The slowest rank's time counts. The table shows the median
and the quartiles for each backend, the median of each repeat's 99th percentile, and the ratios of both. Sizes are those
of the tensor that one rank passes: for all_gather and gather its own part, for reduce_scatter, scatter and all_to_all
all parts together, of which each has at least one element. Results are checked once, before the timed calls. FILE gets
all repeats; ratios.py makes a table of it. All sizes, which is the default, take about ten minutes.

vllm and deepspeed are the shared-memory all-reduces of these packages (shared_memory.py). They have only the bare
all_reduce: the backend's own, without what torch.distributed does in Python.
"""

import argparse
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

import shared_memory
import tutti_torch

BACKENDS = ("tutti", "gloo")
BARE = "bare all_reduce"  # without the part of torch.distributed that is written in Python
SIZES = [8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20, 64 << 20]


def make_calls(rank, ranks, count, dtype, groups):
    """A function that resets the data, and name -> (call on a group, check of the result), on `count` elements."""
    def zeros(elements):
        return torch.zeros(elements, dtype=dtype)

    backends = {group: group._get_backend(torch.device("cpu")) for group in groups.values()
                if not isinstance(group, shared_memory.Group)}
    block = max(1, count // ranks)
    data = zeros(count) + (rank + 1)
    whole = zeros(block * ranks) + (rank + 1)
    out_whole = zeros(block * ranks)
    out = zeros(count)
    parts = [zeros(block) + (rank + 1) for _ in range(ranks)]
    part = zeros(block)
    out_parts = [zeros(block) for _ in range(ranks)]
    gathered = [zeros(count) for _ in range(ranks)]
    gathered_flat = zeros(count * ranks)
    peer = rank ^ 1
    total = ranks * (ranks + 1) / 2

    def all_reduce(group):
        dist.all_reduce(data, group=group)

    def bare_all_reduce(group):
        if isinstance(group, shared_memory.Group):
            group.all_reduce(data)
        else:
            backends[group].allreduce([data]).wait()

    def all_reduce_async(group):
        dist.all_reduce(data, group=group, async_op=True).wait()

    def reduce_scatter_and_all_gather(group):
        dist._reduce_scatter_base(part, whole, group=group)
        dist._all_gather_base(out_whole, part, group=group)

    def ping_pong(group):
        if rank % 2 == 0:
            dist.send(data, peer, group=group)
            dist.recv(out, peer, group=group)
        else:
            dist.recv(out, peer, group=group)
            dist.send(data, peer, group=group)

    def batch(group):
        # Transfers the tensors as batch_isend_irecv does for CPU tensors.
        requests = [dist.isend(data, peer, group=group), dist.irecv(out, peer, group=group)]
        for request in requests:
            request.wait()

    def filled(tensor, value):
        return bool((tensor == value).all())

    def gathers(tensors):
        return all(filled(tensor, r + 1) for r, tensor in enumerate(tensors))

    def reset():
        data.fill_(rank + 1)

    return reset, {
        "all_reduce": (all_reduce, lambda: filled(data, total)),
        BARE: (bare_all_reduce, lambda: filled(data, total)),
        "all_reduce, waited for later": (all_reduce_async, lambda: filled(data, total)),
        "broadcast": (lambda group: dist.broadcast(data, 0, group=group), lambda: filled(data, 1)),
        "reduce": (lambda group: dist.reduce(data, 0, group=group), lambda: rank != 0 or filled(data, total)),
        "all_gather": (lambda group: dist.all_gather(gathered, data, group=group), lambda: gathers(gathered)),
        "all_gather_into_tensor": (lambda group: dist._all_gather_base(gathered_flat, data, group=group),
                                   lambda: gathers(gathered_flat.chunk(ranks))),
        "gather": (lambda group: dist.gather(data, gathered if rank == 0 else None, 0, group=group),
                   lambda: rank != 0 or gathers(gathered)),
        "scatter": (lambda group: dist.scatter(part, parts if rank == 0 else None, 0, group=group),
                    lambda: filled(part, 1)),
        "reduce_scatter": (lambda group: dist.reduce_scatter(part, parts, group=group), lambda: filled(part, total)),
        "reduce_scatter_tensor": (lambda group: dist._reduce_scatter_base(part, whole, group=group),
                                  lambda: filled(part, total)),
        "reduce_scatter_tensor and all_gather_into_tensor": (reduce_scatter_and_all_gather, lambda: filled(out_whole, total)),
        "all_to_all": (lambda group: dist.all_to_all(out_parts, parts, group=group), lambda: gathers(out_parts)),
        "all_to_all_single": (lambda group: dist.all_to_all_single(out_whole, whole, group=group),
                              lambda: gathers(out_whole.chunk(ranks))),
        "send and recv": (ping_pong, lambda: filled(out, peer + 1)),
        "isend and irecv": (batch, lambda: filled(out, peer + 1)),
        "barrier": (lambda group: dist.barrier(group=group), lambda: True),
    }


def refuses(name, call, group):
    """The backend's reason for refusing this call, or None if it supports the call."""
    if isinstance(group, shared_memory.Group):
        return None if name == BARE else "it only has all-reduces"
    try:
        call(group)
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return None


def seconds_per_call(call, group, calls, meet):
    """The mean, and the 99th percentile."""
    dist.barrier(group=meet)
    stamps = [time.perf_counter()]
    for _ in range(calls):
        call(group)
        stamps.append(time.perf_counter())
    each = sorted(end - begin for begin, end in itertools.pairwise(stamps))
    return (stamps[-1] - stamps[0]) / calls, each[int(0.99 * (calls - 1) + 0.5)]


def slowest(seconds, group):
    values = torch.tensor(seconds, dtype=torch.float64)
    dist.all_reduce(values, dist.ReduceOp.MAX, group=group)
    return values.tolist()


def measure(rank, ranks, arguments, groups, size, type_name):
    dtype = getattr(torch, type_name)
    reset, calls = make_calls(rank, ranks, size // dtype.itemsize, dtype, groups)
    meet = groups["gloo"]
    for name, (call, is_right) in calls.items():
        if arguments.calls and name not in arguments.calls:
            continue
        if name == "barrier" and size != arguments.sizes[0]:
            continue
        there = []
        for backend, group in groups.items():
            reset()
            reason = refuses(name, call, group)
            if reason is None:
                if isinstance(group, shared_memory.Group):
                    call(group)
                assert is_right(), f"{backend}: {name} of {size} bytes on {ranks} ranks is wrong"
                there.append(backend)
            elif rank == 0:
                print(f"# {backend} has no {name}: {reason[:90]}", flush=True)
        count, means, tails = {}, {backend: [] for backend in there}, {backend: [] for backend in there}
        for backend in there:
            seconds_per_call(call, groups[backend], 2, meet)
            one, _ = slowest(seconds_per_call(call, groups[backend], 3, meet), meet)
            count[backend] = max(1, min(2000, int(arguments.milliseconds / 1000 / one)))
        for repeat in range(arguments.repeats):
            for backend in there if repeat % 2 == 0 else reversed(there):
                mean, tail = slowest(seconds_per_call(call, groups[backend], count[backend], meet), meet)
                means[backend].append(mean)
                tails[backend].append(tail)
        if rank == 0:
            size_shown = None if name == "barrier" else size
            report(name, size_shown, type_name, ranks, means, tails)
            if arguments.json:
                with open(arguments.json, "a") as file:
                    cell = {"call": name, "ranks": ranks, "type": type_name, "bytes": size_shown,
                            "load": round(os.getloadavg()[0], 2), "calls": count,
                            "us": microseconds(means), "p99_us": microseconds(tails)}
                    print(json.dumps(cell), file=file)


def microseconds(times):
    return {backend: [round(one * 1e6, 3) for one in of_one] for backend, of_one in times.items()}


def report(name, size, type_name, ranks, means, tails):
    cells = []
    for backend, times in means.items():
        quarter = statistics.quantiles(times, n=4) if len(times) > 1 else [times[0]] * 3
        cells.append(f"{backend} {statistics.median(times) * 1e6:.4g} ({quarter[0] * 1e6:.4g} to {quarter[2] * 1e6:.4g}), "
                     f"p99 {statistics.median(tails[backend]) * 1e6:.4g}")
        if backend != "tutti":
            ratio, tail = (statistics.median(of["tutti"]) / statistics.median(of[backend]) for of in (means, tails))
            cells[-1] += f", ratio {ratio:.2f}, of p99 {tail:.2f}"
    print(f"| {name} | {ranks} | {type_name} | {'' if size is None else size} | {' | '.join(cells)} |", flush=True)


def run_rank(rank, ranks, arguments, file):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=ranks,
                            timeout=timedelta(seconds=300))
    groups = {backend: dist.new_group(backend=backend) for backend in BACKENDS}
    for name in arguments.beside:
        if name not in groups:
            groups[name] = shared_memory.Group(name, rank, ranks)
    for type_name in arguments.types:
        for size in arguments.sizes:
            measure(rank, ranks, arguments, groups, size, type_name)
    dist.destroy_process_group()


def processor():
    with open("/proc/cpuinfo") as file:
        return next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.machine())


def commit():
    asked = subprocess.run(["git", "-C", os.path.dirname(os.path.abspath(__file__)), "rev-parse", "--short", "HEAD"],
                           capture_output=True, text=True)
    return asked.stdout.strip() or "unknown"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--types", nargs="+", default=["float32"])
    parser.add_argument("--calls", nargs="+", default=[])
    parser.add_argument("--beside", nargs="+", default=["gloo"], choices=["gloo", *shared_memory.KINDS])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--milliseconds", type=float, default=50)
    parser.add_argument("--json", metavar="FILE", help="write each cell's repeats there, a line for each")
    arguments = parser.parse_args()
    if arguments.json:
        with open(arguments.json, "w") as file:
            print(json.dumps({"pytorch": torch.__version__, "tutti": tutti_torch.library_version(),
                              "commit": commit(), "date": time.strftime("%F %H:%M"), "cores": os.cpu_count(),
                              "processor": processor(), "repeats": arguments.repeats,
                              "milliseconds": arguments.milliseconds}), file=file)
    print(f"# PyTorch {torch.__version__}, Tutti {tutti_torch.library_version()}; {os.cpu_count()} CPUs; load "
          f"{os.getloadavg()[0]:.1f}; {arguments.repeats} repeats; {time.strftime('%F %H:%M')}")
    print("| call | ranks | type | bytes | us: median (quartiles) of each backend |")
    print("|---|---|---|---|---|", flush=True)
    for ranks in arguments.ranks:
        with tempfile.TemporaryDirectory() as folder:
            multiprocessing.spawn(run_rank, (ranks, arguments, os.path.join(folder, "store")), nprocs=ranks)
    return 0


if __name__ == "__main__":
    sys.exit(main())
