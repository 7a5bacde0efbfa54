#!/usr/bin/env python3
"""Times ray.util.collective over Tutti beside its backend gloo (which needs PyTorch), on the same actors.

    ray_groups.py [--ranks 2 4] [--sizes 8 65536 ...] [--rounds 15] [--json FILE]

A round times every cell with both, one after the other, the first of them by turns. A figure is the median over the
rounds of the slowest actor's time for a call; a ratio is the median of the rounds' ratios.
"""

import argparse
import datetime
import json
import os
import platform
import statistics
import time

import numpy as np
import ray
import torch
from ray.util import collective

import tutti.ray

CELL_SECONDS = 0.05
BACKENDS = ("tutti", "gloo")
CALLS = ("allreduce", "allgather", "reducescatter", "broadcast", "barrier")
DOUBLE = 8


@ray.remote
class Actor:
    def join(self, size, rank):
        self.size = size
        for backend in BACKENDS:
            # Gloo's group has to be the default one of torch.distributed.
            collective.init_collective_group(size, rank, backend=backend, group_name="default" if backend == "gloo" else backend)

    def run(self, call, backend, nbytes, count):
        """Seconds for a call."""
        group = "default" if backend == "gloo" else backend
        tensor = torch.ones(max(1, nbytes // DOUBLE), dtype=torch.float64)
        parts = list(torch.ones(self.size, max(1, nbytes // DOUBLE // self.size), dtype=torch.float64))
        arguments = {"allreduce": (tensor,), "allgather": (parts, parts[0].clone()),
                     "reducescatter": (parts[0].clone(), parts), "broadcast": (tensor, 0), "barrier": ()}[call]
        function = getattr(collective, call)
        function(*arguments, group_name=group)
        collective.barrier("tutti")
        begin = time.perf_counter()
        for _ in range(count):
            function(*arguments, group_name=group)
        return (time.perf_counter() - begin) / count


def slowest(actors, *what):
    return max(ray.get([actor.run.remote(*what) for actor in actors]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--sizes", type=int, nargs="+", default=[8, 4096, 65536, 1 << 20, 16 << 20])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json")
    options = parser.parse_args()
    ray.init(log_to_driver=False, num_cpus=max(options.ranks),
             runtime_env={"worker_process_setup_hook": "tutti.ray.register"})
    rows = []
    for ranks in options.ranks:
        actors = [Actor.remote() for _ in range(ranks)]
        ray.get([actor.join.remote(ranks, rank) for rank, actor in enumerate(actors)])
        cells = [(call, size) for call in CALLS for size in (options.sizes if call != "barrier" else [0])]
        counts = {cell: max(2, int(CELL_SECONDS / slowest(actors, cell[0], "gloo", cell[1], 3))) for cell in cells}
        times = {cell: {backend: [] for backend in BACKENDS} for cell in cells}
        for turn in range(options.rounds):
            for cell in cells:
                for backend in BACKENDS if turn % 2 else reversed(BACKENDS):
                    times[cell][backend].append(slowest(actors, cell[0], backend, cell[1], counts[cell]))
        for (call, size), found in times.items():
            row = {"call": call, "ranks": ranks, "bytes": size,
                   **{f"{backend}_us": statistics.median(found[backend]) * 1e6 for backend in BACKENDS},
                   "ratio": statistics.median(t / g for t, g in zip(found["tutti"], found["gloo"])),
                   "ratios": statistics.quantiles([t / g for t, g in zip(found["tutti"], found["gloo"])])}
            rows.append(row)
            print(f"{call:14} {ranks} ranks {size:9} B: tutti {row['tutti_us']:10.1f} us, gloo {row['gloo_us']:10.1f} us, "
                  f"ratio {row['ratio']:.2f}", flush=True)
        for actor in actors:
            ray.kill(actor)
    mean = statistics.geometric_mean(row["ratio"] for row in rows)
    print(f"geometric mean {mean:.2f}, greatest {max(row['ratio'] for row in rows):.2f}")
    if options.json:
        machine = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
        with open(options.json, "w") as out:
            json.dump({"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%MZ"), "machine": machine,
                       "cores": os.cpu_count(), "load": os.getloadavg()[0], "ray": ray.__version__,
                       "torch": torch.__version__, "numpy": np.__version__, "python": platform.python_version(),
                       "tutti": tutti.library_version(), "rounds": options.rounds, "rows": rows}, out, indent=1)
            out.write("\n")


main()
