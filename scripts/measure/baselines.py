#!/usr/bin/env python3
"""Makes docs/notebook/parallel/baselines.csv: what an all-reduce costs by the algorithms of docs/why_all_reduce.md.

    scripts/measure/baselines.py simulate BUILD_DIR                          rows of the simulator, to 1,024 ranks
    scripts/measure/baselines.py measure BUILD_DIR --pythonpath FOLDER       rows measured on clusters of namespaces

Both print rows without a header. `sent` is what the busiest rank sends, in buffers: for simulated rows counted in the
schedules of `tutti show`, for measured rows by the library's counters. FOLDER has the Python package tutti.
"""
import argparse
import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "docs"))
from draw_why_all_reduce import schedules_of, traffic

FLAT = ["parameter_server", "all_to_all_broadcast", "ring", "double_binary_tree"]
NODES = ["parameter_server", "ring", "double_binary_tree", "two_level", "two_level_tree"]
HOSTS = ["parameter_server", "all_to_all_broadcast", "ring", "two_level", "double_binary_tree"]
PORTS = 8  # of a node of the machine below, one for each GPU
H100 = "topology/testdata/dgxh100.xml"
RANKS = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
SIMULATED_BYTES = [8 << 10, 64 << 20]
# Channels, protocol and chunk: of baselines, which take the simulator long, and of trees.
PLANS = {8 << 10: {"all_to_all_broadcast": "1 line 8K"},
         64 << 20: {"parameter_server": "1 bulk 512K", "all_to_all_broadcast": "1 bulk 4M",
                    "double_binary_tree": "4 bulk 128K", "two_level_tree": "12 inline 64K"}}
MOST_BROADCASTING = 128  # n * n large messages of more ranks take the simulator hours
MOST_SEARCHED = {"parameter_server": 8, "all_to_all_broadcast": 8, "double_binary_tree": 16, "two_level_tree": 16}
# The links of the cluster are so slow that two cores keep up with them: they cost the time, as in a real cluster.
MBIT = 100
MEASURED_BYTES = [1 << 10, 1 << 20]
CLUSTERS = [(2, 1), (2, 2), (4, 2)]  # hosts, and ranks of each
ROUNDS = {1 << 10: 201, 1 << 20: 9}


def sent(tutti, algorithm, ranks, nodes):
    """Buffers that the busiest rank sends."""
    alike = "tree" not in algorithm  # then rank 0 is the server, or like all others
    by_rank = collections.Counter()
    nodes = nodes if nodes < ranks else 1
    options = ["--nodes", str(nodes)] + (["--rank", "0"] if alike else [])
    for (rank, _, _), buffers in traffic(schedules_of(tutti, algorithm, ranks, *options)).items():
        by_rank[rank] += buffers
    return max(by_rank.values())


def plan_of(algorithm, ranks, size):
    """Options for one of PLANS where a search takes the simulator long; none: it finds the fastest plan. Where both
    were simulated, the plan of PLANS was the fastest or within 3 %."""
    plan = PLANS.get(size, {}).get(algorithm)
    searched = 128 if size == SIMULATED_BYTES[0] else MOST_SEARCHED.get(algorithm)
    if plan is None or ranks <= searched:
        return []
    return [word for pair in zip(["--channels", "--protocol", "--chunk"], plan.split()) for word in pair]


def simulated_us(tutti, machine, algorithm, ranks, size):
    if algorithm == "all_to_all_broadcast" and size == SIMULATED_BYTES[1] and ranks > MOST_BROADCASTING:
        return None
    command = [tutti, "simulate", "all_reduce", *machine, "--ranks", str(ranks), "--algo", algorithm, "-b", str(size),
               "-e", str(size), "--calibration", "none", "--json", *plan_of(algorithm, ranks, size)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["rows"][0]["us"]


def row(kind, machine, algorithm, ranks, size, buffers, us, least_us=None):
    times = ["" if time_us is None else f"{time_us:.4g}" for time_us in (us, least_us)]
    print(kind, machine, algorithm, ranks, size, f"{buffers:.4g}", *times, sep=",", flush=True)


def simulate(build):
    tutti = build / "tools/tutti"
    for ranks in RANKS:
        for algorithm in FLAT:
            buffers = sent(tutti, algorithm, ranks, 1)
            for size in SIMULATED_BYTES:
                us = simulated_us(tutti, ["--topo", H100, "--nodes", str(ranks)], algorithm, ranks, size)
                row("simulated", "one_gpu_a_node", algorithm, ranks, size, buffers, us)
        nodes = ranks // PORTS
        for algorithm in NODES if nodes > 1 else []:
            buffers = sent(tutti, algorithm, ranks, nodes)
            for size in SIMULATED_BYTES:
                us = simulated_us(tutti, ["--topo", H100, "--nodes", str(nodes)], algorithm, ranks, size)
                row("simulated", "eight_gpus_a_node", algorithm, ranks, size, buffers, us)
    for hosts, each in CLUSTERS:
        cluster = ["--nodes", str(hosts), "--network", str(MBIT), "--one-machine"]
        for algorithm in HOSTS if each > 1 else FLAT:
            us = simulated_us(tutti, cluster, algorithm, hosts * each, MEASURED_BYTES[-1])
            row("simulated", "hosts", algorithm, hosts * each, MEASURED_BYTES[-1],
                sent(tutti, algorithm, hosts * each, hosts), us)


def measure(pythonpath):
    for hosts, each in CLUSTERS:
        cluster = ["--hosts", str(hosts), "--ranks-per-host", str(each), "--bandwidth", f"{MBIT}mbit"]
        subprocess.run(["scripts/cluster.sh", *cluster, sys.executable, "-B", __file__, "rank", "."], check=True,
                       env=os.environ | {"PYTHONPATH": str(pythonpath), "TUTTI_CALIBRATION": "none"})


def measure_as_rank():
    """One rank of the cluster: all algorithms in turn, round after round, so that what else runs disturbs all alike."""
    import numpy
    import tutti
    with tutti.init(init_timeout=60, timeout=60) as comm:
        algorithms = HOSTS if comm.size > int(os.environ["HOSTS"]) else FLAT
        for size in MEASURED_BYTES:
            given = numpy.full(size // 4, comm.rank + 1, numpy.float32)
            result = numpy.empty_like(given)
            times, buffers = {name: [] for name in algorithms}, {}
            with_algorithm = {name: comm.split(0, comm.rank, algorithm=name) for name in algorithms}
            for turn in range(ROUNDS[size] + 1):  # the first one makes connections
                for name, own in with_algorithm.items():
                    comm.barrier()
                    begin = time.perf_counter()
                    own.all_reduce(given, result)
                    us = (time.perf_counter() - begin) * 1e6
                    if not (result == comm.size * (comm.size + 1) // 2).all():
                        sys.exit(f"{name} on {comm.size} ranks: a wrong sum")
                    slowest = comm.all_reduce(numpy.array([us]), op="max")[0]
                    times[name] += [slowest] if turn > 0 else []
            for name, own in with_algorithm.items():
                counted = own.counters()
                own_bytes = sum(by.get(name, 0) for by in counted["bytes_sent"].values())
                calls = counted["operations_by_algorithm"][name]
                buffers[name] = comm.all_reduce(numpy.array([own_bytes / calls / size]), op="max")[0]
                own.close()
            for name in algorithms if comm.rank == 0 else []:
                row("measured", "hosts", name, comm.size, size, buffers[name], statistics.median(times[name]),
                    min(times[name]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["simulate", "measure", "rank"], help="rank: called by measure")
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--pythonpath", type=pathlib.Path)
    options = parser.parse_args()
    if options.what == "simulate":
        simulate(options.build)
    elif options.what == "measure":
        measure(options.pythonpath)
    else:
        measure_as_rank()


if __name__ == "__main__":
    main()
