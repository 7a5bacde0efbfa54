#!/usr/bin/env python3
"""Times JAX's CPU collectives over Tutti beside Gloo and Open MPI, in jobs of the same program that live at the same time and
work in turn.

    bench.py [--processes 2 4] [--sizes 64 65536 ...] [--rounds 7] [--mpiwrapper LIBRARY] [--json FILE]

A size is what a process gives to psum, psum_scatter, all_to_all and ppermute, and what it gets from all_gather, in bytes.
A round times every cell with each, one after the other, the first of them by turns. A figure is the median over the rounds of
the slowest process's time for a call, with JAX's own part; a ratio is the median of the rounds' ratios.

LIBRARY is libmpiwrapper.so of https://github.com/eschnett/MPIwrapper, built for Open MPI. Without it, Open MPI is left out.
"""

import argparse
import datetime
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import time

CELL_SECONDS = 0.1
CALLS = ("psum", "psum_scatter", "all_gather", "all_to_all", "ppermute")
FLOAT_BYTES = 4


def work():
    """A process of a job: reads "call bytes count" lines from the bench, and answers each with the seconds that a call took."""
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    number, processes, coordinator, port = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5])
    bench = socket.create_connection(("127.0.0.1", port)).makefile("rw")
    jax.distributed.initialize(coordinator, processes, number)
    mesh = Mesh(np.array(jax.devices()), ("r",))
    ring = [(i, (i + 1) % processes) for i in range(processes)]
    bodies = {"psum": lambda v: jax.lax.psum(v, "r"),
              "psum_scatter": lambda v: jax.lax.psum_scatter(v, "r", tiled=True),
              "all_gather": lambda v: jax.lax.all_gather(v, "r", tiled=True),
              "all_to_all": lambda v: jax.lax.all_to_all(v, "r", 0, 0, tiled=True),
              "ppermute": lambda v: jax.lax.ppermute(v, "r", ring)}
    compiled = {call: jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("r"), out_specs=P("r"), check_vma=False))
                for call, body in bodies.items()}
    for line in bench:
        call, size, count = line.split()
        elements = max(1, int(size) // FLOAT_BYTES // (processes if call == "all_gather" else 1))
        mine = np.ones(elements, np.float32)
        array = jax.make_array_from_single_device_arrays(
            (elements * processes,), NamedSharding(mesh, P("r")), [jax.device_put(mine, jax.local_devices()[0])])
        function = compiled[call]
        function(array).block_until_ready()
        begin = time.perf_counter()
        for _ in range(int(count)):
            function(array).block_until_ready()
        print((time.perf_counter() - begin) / int(count), file=bench, flush=True)


class Job:
    def __init__(self, stack, processes, mpiwrapper):
        with socket.create_server(("127.0.0.1", 0)) as free:
            coordinator = f"127.0.0.1:{free.getsockname()[1]}"
        environment = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "1",
                       "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo" if stack == "gloo" else "mpi"}
        with socket.create_server(("127.0.0.1", 0)) as server:
            commands = [[sys.executable, __file__, "--work", str(p), str(processes), coordinator, str(server.getsockname()[1])]
                        for p in range(processes)]
            if stack == "tutti":
                import tutti.jax
                environment["MPITRAMPOLINE_LIB"] = tutti.jax.LIBRARY
            elif stack == "openmpi":
                environment |= {"MPITRAMPOLINE_LIB": mpiwrapper, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
                parts = [word for command in commands for word in [":", "-n", "1", *command]]
                commands = [["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", *parts[1:]]]
            self.processes = [subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                               stderr=subprocess.DEVNULL) for command in commands]
            server.settimeout(120)
            self.talks = [server.accept()[0].makefile("rw") for _ in range(processes)]

    def time(self, call, size, count):
        """Seconds of a call on the slowest process."""
        for talk in self.talks:
            print(call, size, count, file=talk, flush=True)
        answers = [talk.readline() for talk in self.talks]
        return max(map(float, answers)) if all(answers) else sys.exit("a process has ended")

    def end(self):
        for talk in self.talks:
            talk.close()
        for process in self.processes:
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 4096, 65536, 1 << 20, 16 << 20, 64 << 20])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--mpiwrapper", metavar="LIBRARY")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    import jax
    load, rows = os.getloadavg()[0], []
    others = ["gloo", *(["openmpi"] if options.mpiwrapper else [])]
    stacks = ["tutti", *others]
    for processes in options.processes:
        jobs = {stack: Job(stack, processes, options.mpiwrapper) for stack in stacks}
        for call in CALLS:
            for size in options.sizes:
                count = max(1, int(CELL_SECONDS / jobs["gloo"].time(call, size, 1)))
                found = {stack: [] for stack in stacks}
                for turn in range(options.rounds):
                    for place in range(len(stacks)):
                        stack = stacks[(turn + place) % len(stacks)]
                        found[stack].append(jobs[stack].time(call, size, count))
                row = {"call": call, "processes": processes, "bytes": size,
                       **{f"{stack}_us": statistics.median(found[stack]) * 1e6 for stack in stacks},
                       **{f"ratio_{other}": statistics.median(mine / theirs for mine, theirs in
                                                              zip(found["tutti"], found[other])) for other in others}}
                rows.append(row)
                shown = [f"{stack} {row[f'{stack}_us']:.0f} us" for stack in stacks]
                shown += [f"{row[f'ratio_{other}']:.2f} of {other}" for other in others]
                print(f"{call:12} {processes} processes {size:9} B: {', '.join(shown)}", flush=True)
        for job in jobs.values():
            job.end()
    for other in others:
        ratios = [row[f"ratio_{other}"] for row in rows]
        print(f"of {other}: geometric mean {statistics.geometric_mean(ratios):.2f}, greatest {max(ratios):.2f}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%MZ"),
                       "processor": platform.processor() or platform.machine(), "cores": os.cpu_count(),
                       "load": [load, os.getloadavg()[0]], "jax": jax.__version__, "python": platform.python_version(),
                       "rounds": options.rounds, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    work() if sys.argv[1:2] == ["--work"] else main()
