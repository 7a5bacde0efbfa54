#!/usr/bin/env python3
"""Compares Tutti with Gloo through PyTorch: every call, size and number of ranks, with both backends interleaved.

    python3 interop/torch/bench/bench.py [--ranks 2 4] [--sizes 8 4096 67108864] [--calls NAME ...] [--repeats 9]
                                         [--json FILE]

Each rank has a group of each backend. A repeat times both backends in turn, in alternating order. It starts with a
barrier and makes enough calls to take about --milliseconds. The slowest rank's time counts. The table shows the median
and the quartiles for each backend, and the ratio of the medians. Sizes are those of the tensor that one rank passes:
for all_gather and gather its own part, for reduce_scatter, scatter and all_to_all all parts together, of which each has
at least one element. Results are checked once, before the timed calls. FILE gets all repeats; ratios.py makes a table of
it. All sizes, which is the default, take about ten minutes.
"""

import argparse
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

import tutti_torch

BACKENDS = ("tutti", "gloo")
SIZES = [8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20, 64 << 20]


def make_calls(rank, ranks, count):
    """A function that resets the data, and name -> (call on a group, check of the result), on `count` float32."""
    block = max(1, count // ranks)
    data = torch.full((count,), float(rank + 1))
    whole = torch.full((block * ranks,), float(rank + 1))
    out_whole = torch.zeros(block * ranks)
    out = torch.zeros(count)
    parts = [torch.full((block,), float(rank + 1)) for _ in range(ranks)]
    part = torch.zeros(block)
    out_parts = [torch.zeros(block) for _ in range(ranks)]
    gathered = [torch.zeros(count) for _ in range(ranks)]
    gathered_flat = torch.zeros(count * ranks)
    peer = rank ^ 1
    total = ranks * (ranks + 1) / 2

    def all_reduce(group):
        dist.all_reduce(data, group=group)

    def all_reduce_async(group):
        dist.all_reduce(data, group=group, async_op=True).wait()

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
        "all_to_all": (lambda group: dist.all_to_all(out_parts, parts, group=group), lambda: gathers(out_parts)),
        "all_to_all_single": (lambda group: dist.all_to_all_single(out_whole, whole, group=group),
                              lambda: gathers(out_whole.chunk(ranks))),
        "send and recv": (ping_pong, lambda: filled(out, peer + 1)),
        "isend and irecv": (batch, lambda: filled(out, peer + 1)),
        "barrier": (lambda group: dist.barrier(group=group), lambda: True),
    }


def refuses(call, group):
    """The backend's reason for refusing this call, or None if it supports the call."""
    try:
        call(group)
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return None


def seconds_per_call(call, group, calls):
    dist.barrier(group=group)
    begin = time.perf_counter()
    for _ in range(calls):
        call(group)
    return (time.perf_counter() - begin) / calls


def slowest(seconds, group):
    value = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(value, dist.ReduceOp.MAX, group=group)
    return value.item()


def measure(rank, ranks, arguments, groups, size):
    reset, calls = make_calls(rank, ranks, size // 4)
    for name, (call, is_right) in calls.items():
        if arguments.calls and name not in arguments.calls:
            continue
        if name == "barrier" and size != arguments.sizes[0]:
            continue
        there = []
        for backend in BACKENDS:
            reset()
            reason = refuses(call, groups[backend])
            if reason is None:
                assert is_right(), f"{backend}: {name} of {size} bytes on {ranks} ranks is wrong"
                there.append(backend)
            elif rank == 0:
                print(f"# {backend} has no {name}: {reason[:90]}", flush=True)
        count, times = {}, {backend: [] for backend in there}
        for backend in there:
            seconds_per_call(call, groups[backend], 2)
            one = slowest(seconds_per_call(call, groups[backend], 3), groups["gloo"])
            count[backend] = max(1, min(2000, int(arguments.milliseconds / 1000 / one)))
        for repeat in range(arguments.repeats):
            for backend in there if repeat % 2 == 0 else reversed(there):
                seconds = seconds_per_call(call, groups[backend], count[backend])
                times[backend].append(slowest(seconds, groups["gloo"]))
        if rank == 0:
            report(name, size, ranks, times)
            if arguments.json:
                with open(arguments.json, "a") as file:
                    cell = {"call": name, "ranks": ranks, "bytes": None if name == "barrier" else size,
                            "load": round(os.getloadavg()[0], 2), "calls": count,
                            "us": {backend: [round(one * 1e6, 3) for one in times[backend]] for backend in there}}
                    print(json.dumps(cell), file=file)


def quartiles(times):
    quarter = statistics.quantiles(times, n=4) if len(times) > 1 else [times[0]] * 3
    return f"{statistics.median(times) * 1e6:.4g} ({quarter[0] * 1e6:.4g} to {quarter[2] * 1e6:.4g})"


def report(name, size, ranks, times):
    cells = [quartiles(times[backend]) if backend in times else "-" for backend in BACKENDS]
    ratio = "-"
    if len(times) == 2:
        ratio = f"{statistics.median(times['tutti']) / statistics.median(times['gloo']):.2f}"
    print(f"| {name} | {ranks} | {'' if name == 'barrier' else size} | {cells[0]} | {cells[1]} | {ratio} |", flush=True)


def run_rank(rank, ranks, arguments, file):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=ranks,
                            timeout=timedelta(seconds=300))
    groups = {backend: dist.new_group(backend=backend) for backend in BACKENDS}
    for size in arguments.sizes:
        measure(rank, ranks, arguments, groups, size)
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
    parser.add_argument("--calls", nargs="+", default=[])
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
    print("| call | ranks | bytes | Tutti, us: median (quartiles) | Gloo, us | ratio |")
    print("|---|---|---|---|---|---|", flush=True)
    for ranks in arguments.ranks:
        with tempfile.TemporaryDirectory() as folder:
            multiprocessing.spawn(run_rank, (ranks, arguments, os.path.join(folder, "store")), nprocs=ranks)
    return 0


if __name__ == "__main__":
    sys.exit(main())
