#!/usr/bin/env python3
"""Measures what a change or a setting costs: alternates two builds of tutti-bench, or one build with two settings, on
this machine.

    scripts/measure/compare.py BEFORE_BUILD_DIR AFTER_BUILD_DIR [--rounds 9] [--ranks 2,4,8] [--csv FILE]
        [-- BENCH_OPTIONS]
    scripts/measure/compare.py BUILD_DIR BUILD_DIR --before-with TUTTI_DATA_PROTECTION=none \\
        --after-with TUTTI_DATA_PROTECTION=encrypt --collectives all_reduce --ranks 2 --sizes 8,16M,8 -- --hosts 2

Measures all collectives of the host grid: all-reduce in and out of place, the others out of place; float sum; 8 B,
1 KiB, 128 KiB, 16 MiB. Each round runs both sides, in the opposite order of the previous round. The result of a cell is
the ratio after/before of the medians over all rounds. The quartiles of the rounds' ratios show the spread. Each build
runs with its own library. Flags after -- are passed to tutti-bench.
"""
import argparse
import csv
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast")


def measure(build, settings, collective, ranks, options):
    """Microseconds by cell: (collective, place, ranks, bytes). `settings` is a list of "NAME=VALUE"."""
    place = "both" if collective == "all_reduce" else "out"
    with tempfile.NamedTemporaryFile(suffix=".csv") as file:
        subprocess.run(
            [os.path.join(build, "bench", "tutti-bench"), collective, "--ranks", str(ranks), "--place", place,
             "--csv", file.name, "--cell-ms", "15", *options],
            check=True, stdout=subprocess.DEVNULL, env=os.environ | dict(each.split("=", 1) for each in settings))
        with open(file.name, newline="") as rows:
            cells = {}
            for row in csv.DictReader(rows):
                if int(row["wrong"]) != 0:
                    sys.exit(f"{build}: wrong elements in {row}")
                cells[collective, row["place"], ranks, int(row["bytes"])] = float(row["median_us"])
            return cells


def geometric_mean(ratios):
    return math.exp(statistics.fmean(map(math.log, ratios)))


def processor():
    with open("/proc/cpuinfo") as info:
        return next((line.split(":")[1].strip() for line in info if line.startswith("model name")), platform.machine())


def main():
    argv, options = sys.argv[1:], []
    if "--" in argv:
        argv, options = argv[:argv.index("--")], argv[argv.index("--") + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--sizes", default="8,16M,128", help="in bytes: first, last, and factor between neighbours")
    parser.add_argument("--collectives", default=",".join(COLLECTIVES))
    for which in ("before", "after"):
        parser.add_argument(f"--{which}-with", metavar="NAME=VALUE", action="append", default=[],
                            help="an environment variable for this side")
    parser.add_argument("--csv", help="a file for the time of every cell in every round")
    arguments = parser.parse_args(argv)

    first, last, factor = arguments.sizes.split(",")
    options += ["-b", first, "-e", last, "-f", factor]
    sides = {"before": (arguments.before, arguments.before_with), "after": (arguments.after, arguments.after_with)}
    times = {}  # by cell: a list for each build, one entry per round
    for turn in range(arguments.rounds):
        for ranks in map(int, arguments.ranks.split(",")):
            for collective in arguments.collectives.split(","):
                for which in sorted(sides, reverse=turn % 2 == 0):
                    for cell, us in measure(*sides[which], collective, ranks, options).items():
                        times.setdefault(cell, {"before": [], "after": []})[which].append(us)
        print(f"round {turn + 1} of {arguments.rounds} is done", file=sys.stderr)

    print(f"{processor()}, {os.cpu_count()} processors; {arguments.rounds} rounds; time after / before, of medians")
    print(f"{'':30} {'before us':>10} {'after us':>10} {'ratio':>6}  quartiles of the rounds' ratios")
    ratios = {}
    for cell, both in times.items():
        before, after = statistics.median(both["before"]), statistics.median(both["after"])
        ratios[cell] = after / before
        rounds = [a / b for b, a in zip(both["before"], both["after"])]
        low, _, high = statistics.quantiles(rounds, n=4) if len(rounds) > 1 else rounds * 3
        collective, place, ranks, size = cell
        print(f"{collective + ' ' + place:18} {ranks} x {size:>8} {before:10.2f} {after:10.2f} {ratios[cell]:6.3f}  "
              f"{low:.3f} to {high:.3f}")
    print(f"geometric mean of all {len(ratios)} cells: {geometric_mean(ratios.values()):.3f}")
    for size in sorted({cell[3] for cell in ratios}):
        print(f"  {size} B: {geometric_mean([r for cell, r in ratios.items() if cell[3] == size]):.3f}")
    if arguments.csv:
        with open(arguments.csv, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["collective", "place", "ranks", "bytes", "build", "round", "median_us"])
            for (collective, place, ranks, size), both in times.items():
                for which, rounds in both.items():
                    writer.writerows([collective, place, ranks, size, which, n, us] for n, us in enumerate(rounds, 1))


if __name__ == "__main__":
    main()
