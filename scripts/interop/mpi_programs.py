#!/usr/bin/env python3
"""Runs programs of MPI with the layer libtutti_pmpi and without it; mpi_programs.sh installs them and says how."""
import argparse
import csv
import math
import os
import pathlib
import platform
import re
import shutil
import statistics
import subprocess
import sys

COLLECTIVES = ("Allreduce Reduce Reduce_scatter Reduce_scatter_block Allgather Allgatherv Scatter Scatterv Gather "
               "Gatherv Alltoall Alltoallv Bcast Barrier").split()
LEAST, MOST = 2, 22  # lengths are powers of two, as IMB's -msglog has them
HOURS = 3600
MPI4PY_SECONDS = 900  # for a file of tests
LIBRARIES = {"openmpi": "libmpi.so.40", "mpich": "libmpi.so.12", "abi": "libmpi_abi.so.1"}


class Mpi:
    """One of the MPIs of scripts/measure/peers.sh; with "_abi" behind its name, by the ABI of the MPI standard."""

    def __init__(self, name, options):
        self.name = name
        self.abi = "abi" if name.endswith("_abi") else "openmpi" if name.startswith("openmpi") else "mpich"
        self.place = options.folder / "peers" / name.removesuffix("_abi")
        self.layer = options.layers / f"libtutti_pmpi_{self.abi}.so"
        self.library = self.place / "lib" / LIBRARIES[self.abi]
        self.python = options.folder / ("python_abi" if self.abi == "abi" else "python") / "bin" / "python"

    def run(self, ranks, program, with_layer, timeout=HOURS, cwd=None):
        """The program's exit status and output."""
        environment = dict(os.environ, LD_LIBRARY_PATH=f"{self.place}/lib:{self.place}/opt/mpi/libfabric/lib",
                           TUTTI_MPI_REPORT="1", MPI4PY_LIBMPI=str(self.library), MPI4PY_MPIABI=self.abi)
        if self.name.startswith("impi"):
            environment |= {"I_MPI_ROOT": str(self.place), "FI_PROVIDER_PATH": f"{self.place}/opt/mpi/libfabric/lib/prov"}
        launcher = [self.place / "bin" / "mpiexec", "-n", str(ranks)]
        if self.abi == "openmpi":
            environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
            launcher.insert(1, "--oversubscribe")
        if with_layer:
            launcher += ["env", f"LD_PRELOAD={self.layer}"]
        try:
            done = subprocess.run([*map(str, launcher), *map(str, program)], env=environment, cwd=cwd, text=True,
                                  errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout,
                                  check=False)
        except subprocess.TimeoutExpired:
            return 124, f"no end within {timeout} s"
        return done.returncode, done.stdout

    def imb(self, options, ranks, with_layer, checks, repetitions, seconds):
        """IMB's rows: {(collective, bytes): (average microseconds, the last column)}; and its whole output."""
        program = options.folder / f"imb_{self.abi}{'_check' if checks else ''}" / "src_cpp" / "IMB-MPI1"
        arguments = ["-npmin", ranks, "-iter", repetitions, "-time", seconds, "-msglog", f"{LEAST}:{MOST}", "-sync",
                     options.sync]
        status, text = self.run(ranks, [program, *arguments, *COLLECTIVES], with_layer)
        rows, collective = {}, None
        for line in text.splitlines():
            if begins := re.match(r"# Benchmarking (\S+)", line):
                collective = begins[1]
            words = line.split()
            if collective is None or not words or not all(re.fullmatch(r"[\d.]+", word) for word in words):
                continue
            if collective == "Barrier" and len(words) == 4:
                rows[collective, 0] = float(words[3]), words[-1]
            elif len(words) >= 5:
                rows[collective, int(words[0])] = float(words[4]), words[-1]
        return status, rows, text


def check(options):
    """IMB checks every result itself: its last column counts what is wrong."""
    right = True
    for mpi in map(lambda name: Mpi(name, options), options.mpis):
        for ranks in options.ranks:
            status, rows, text = mpi.imb(options, ranks, True, True, 50, 1)
            wrong = [cell for cell, (_, defects) in rows.items() if cell[0] != "Barrier" and float(defects) != 0]
            over = re.findall(r"^ +MPI_\w+ +(\d+)", text, re.MULTILINE)
            good = status == 0 and rows and not wrong and any(int(calls) > 0 for calls in over)
            print(f"IMB-MPI1 with checks, {mpi.name}, {ranks} ranks: {len(rows)} cells, {len(wrong)} wrong, "
                  f"{sum(map(int, over))} of rank 0's calls over Tutti, exit status {status}")
            right = right and good
    return right


def mpi4py(options):
    """Which tests pass with the layer, and which without. Each file of tests is a job of its own, because some crash."""
    right = True
    tests = options.folder / "mpi4py" / "test"
    files = [path.stem.removeprefix("test_") for path in sorted(tests.glob("test_*.py"))]
    for mpi in map(lambda name: Mpi(name, options), options.mpis):
        for ranks in options.ranks:
            results = []
            for with_layer in (False, True):
                ran, skipped, over, failed = 0, 0, 0, set()
                for name in files:
                    command = [mpi.python, "main.py", "--no-builddir", "-i", rf"\btest_{name}\.py$"]
                    status, text = mpi.run(ranks, command, with_layer, MPI4PY_SECONDS, tests)
                    failures = set(re.findall(r"^(?:FAIL|ERROR): (.*)$", text, re.MULTILINE))
                    failed |= failures if failures or status == 0 else {f"{name}: exit status {status}"}
                    ran += sum(map(int, re.findall(r"^Ran (\d+) test", text, re.MULTILINE)[:1]))
                    skipped += sum(map(int, re.findall(r"skipped=(\d+)", text)[:1]))
                    over += sum(map(int, re.findall(r"^ +MPI_\w+ +(\d+)", text, re.MULTILINE)))
                results.append(failed)
                print(f"mpi4py, {mpi.name}, {ranks} ranks, {'with' if with_layer else 'without'}: {ran} tests, {skipped} "
                      f"skipped, {over} of rank 0's calls over Tutti, {len(failed)} do not pass: {sorted(failed)}", flush=True)
            right = right and results[1] <= results[0]
    return right


def hpcc(options):
    """hpcc tests its own results. Debian's is for Open MPI 4, whose ABI Open MPI 5 keeps."""
    program = shutil.which("hpcc")
    if program is None or "openmpi5" not in options.mpis:
        print("hpcc is not installed, or Open MPI 5 is not among the MPIs: left out")
        return True
    mpi, right = Mpi("openmpi5", options), True
    for ranks in options.ranks:
        failures = []
        for with_layer in (False, True):
            place = options.folder / f"hpcc_{ranks}_{with_layer}"
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            (place / "hpccinf.txt").write_text(hpcc_input(ranks))
            status, _ = mpi.run(ranks, [program], with_layer, cwd=place)
            text = (place / "hpccoutf.txt").read_text() if (place / "hpccoutf.txt").exists() else ""
            summary = "Success=1" in text
            failures.append((status, summary, text.count("FAILED")))
            print(f"hpcc, openmpi5, {ranks} ranks, {'with' if with_layer else 'without'}: exit status {status}, "
                  f"its summary says {'success' if summary else 'no success'}, {text.count('FAILED')} of its tests failed")
        right = right and failures[1] == failures[0]
    return right


def hpcc_input(ranks):
    """A small problem on a grid of 1 x ranks; the lines that hpcc does not read are comments."""
    values = ["HPLinpack benchmark input file", "", "HPL.out", "8", "1", "1000", "1", "80", "0", "1", "1", str(ranks),
              "16.0", "1", "2", "1", "4", "1", "2", "1", "1", "1", "0", "1", "1", "64", "0", "0", "1", "8",
              "##### as PTRANS reads it", "0", "1200 10000 30000", "0", "40 9 8 13 13 20 16 32 64"]
    return "\n".join(values) + "\n"


def times(options):
    """Pairs of runs, one without and one with the layer; of each cell the median of each side."""
    header = ["mpi", "ranks", "collective", "bytes", "us_without", "us_with", "ratio"]
    table = []
    for mpi in map(lambda name: Mpi(name, options), options.mpis):
        for ranks in options.ranks:
            sides = ({}, {})
            for _ in range(options.repeats):
                for side, with_layer in zip(sides, (False, True)):
                    for cell, (microseconds, _) in mpi.imb(options, ranks, with_layer, False, "1000,40", 2)[1].items():
                        side.setdefault(cell, []).append(microseconds)
            for cell in sides[0]:
                if cell not in sides[1] or (cell[1] == 0 and cell[0] != "Barrier"):
                    continue
                without, with_layer = (max(statistics.median(side[cell]), 0.01) for side in sides)
                table.append([mpi.name, ranks, *cell, without, with_layer, round(with_layer / without, 3)])
            report(mpi.name, ranks, table)
    path = options.data / ("mpi_imb.csv" if options.sync == "on" else "mpi_imb_sync_off.csv")
    with open(path, "w", newline="", encoding="utf-8") as file:
        commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
        file.write(f"# {platform.machine()}, {os.cpu_count()} cores, {commit.stdout.strip()}; SYNC={options.sync} "
                   f"scripts/interop/mpi_programs.sh FOLDER times; medians of {options.repeats} runs\n")
        csv.writer(file, lineterminator="\n").writerows([header, *table])
    print(f"written: {path}")
    return True


def report(name, ranks, table):
    """The table of one MPI, a line for each collective."""
    mine = [row for row in table if row[:2] == [name, ranks]]
    mean = math.exp(sum(math.log(row[6]) for row in mine) / len(mine))
    print(f"{name}, {ranks} ranks: {len(mine)} cells, geometric mean {mean:.2f}, "
          f"{sum(row[6] > 1.1 for row in mine)} cells above 1.1")
    for collective in COLLECTIVES:
        print(f"  {collective:22}", " ".join(f"{row[6]:5.2f}" for row in mine if row[2] == collective))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=["check", "mpi4py", "hpcc", "times"])
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--layers", type=pathlib.Path, required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--sync", choices=["on", "off"], default="on")
    parser.add_argument("--mpis", nargs="+", default=["impi", "impi_abi", "mpich5", "mpich5_abi", "openmpi5"])
    options = parser.parse_args()
    options.folder, options.layers = options.folder.resolve(), options.layers.resolve()  # programs run elsewhere
    steps = {"check": check, "mpi4py": mpi4py, "hpcc": hpcc, "times": times}
    sys.exit(0 if steps[options.step](options) else 1)


if __name__ == "__main__":
    main()
