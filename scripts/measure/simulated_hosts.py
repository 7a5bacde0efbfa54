#!/usr/bin/env python3
"""Measures how well the simulator predicts clusters: runs algorithms on clusters of namespaces with a limited bandwidth
(tutti-bench --hosts) and in tutti simulate, and prints both times as a Markdown table.

The only input that the simulator gets from a run is the bandwidth that a plain TCP stream reached in it."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ALGORITHMS = ["direct", "two_shot", "ring", "recursive", "recursive_doubling", "double_binary_tree", "two_level", "two_level_tree"]
MBIT_PER_GB = 8000
HOSTED_ONLY = {"two_level", "two_level_tree"}  # with one rank per host, these equal flat algorithms


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path, help="build directory of Tutti")
    parser.add_argument("--clusters", default="2x1,4x1,4x4", help="list of HOSTSxRANKS_PER_HOST")
    parser.add_argument("--sizes", default="64K,1M,8M")
    parser.add_argument("--algorithms", default=",".join(ALGORITHMS))
    parser.add_argument("--bandwidth", default="200mbit", help="of each host; low enough for the processor to keep up")
    parser.add_argument("--collective", default="all_reduce")
    parser.add_argument("--repeat", type=int, default=3)
    return parser.parse_args()


def measure(options, hosts, ranks, algorithm, size):
    """Microseconds and the TCP stream's GB/s, or None if another algorithm ran instead."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "results.json"
        command = [options.build / "bench/tutti-bench", options.collective, "-b", size, "-e", size, "--hosts", hosts]
        command += ["--ranks", hosts * ranks, "--bandwidth", options.bandwidth, "--place", "out", "--json", path]
        command += ["--repeat", options.repeat]
        subprocess.run([str(word) for word in command], env=os.environ | {"TUTTI_ALGO": algorithm}, check=True,
                       stdout=subprocess.DEVNULL)
        record = json.loads(path.read_text())
    result = record["results"][0]["results"][0]
    stream = statistics.median(probe["stream_GBps"] for probe in record["plain_tcp"])
    return (result["median_us"], stream) if result["algorithm"] == algorithm else None


def simulate(options, hosts, ranks, algorithm, size, stream):
    command = [options.build / "tools/tutti", "simulate", options.collective, "--nodes", hosts, "--ranks", hosts * ranks]
    command += ["--one-machine", "--network", stream * MBIT_PER_GB, "-b", size, "-e", size, "--algo", algorithm]
    said = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout
    row = [line for line in said.splitlines() if line and not line.startswith("#")][-1]
    return float(row.split()[1])


def main():
    options = parse()
    print("| hosts x ranks | algorithm | bytes | measured (us) | simulated (us) | off |\n|---|---|---|---|---|---|")
    off = []
    for cluster in options.clusters.split(","):
        hosts, ranks = map(int, cluster.split("x"))
        for size in options.sizes.split(","):
            for algorithm in options.algorithms.split(","):
                if ranks == 1 and algorithm in HOSTED_ONLY:
                    continue
                measured = measure(options, hosts, ranks, algorithm, size)
                if measured is None:
                    continue
                us, stream = measured
                simulated = simulate(options, hosts, ranks, algorithm, size, stream)
                off.append(simulated / us - 1)
                print(f"| {hosts} x {ranks} | {algorithm} | {size} | {us:.0f} | {simulated:.0f} | {off[-1]:+.1%} |",
                      flush=True)
    print(f"\nHalf of the {len(off)} predictions are within {statistics.median(map(abs, off)):.1%}, all within "
          f"{max(map(abs, off)):.1%}.")


if __name__ == "__main__":
    sys.exit(main())
