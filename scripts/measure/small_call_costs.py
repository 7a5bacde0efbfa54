#!/usr/bin/env python3
"""Measures what each promise of a repeated small call costs: builds the library once as it is and once without each
promise, and times calls of 8 B in a bare loop.

    scripts/measure/small_call_costs.py [--ranks 1,2,4] [--rounds 9] [--keep FOLDER]

Works on a copy of HEAD in a temporary folder; about five minutes, and 1 GB. A library without a promise is good for
nothing but this. Prints ns a call: the median over the rounds, in which the variants take turns.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

COLLECTIVES = ("all_reduce", "all_gather", "all_to_all", "broadcast")
OPERATIONS = "src/host/operations.h"
RECORDER = "src/diagnostics/recorder.h"
REPEAT = "src/calls/repeat.cc"
CLOCK = [(OPERATIONS, "active.started = Ticks();", "active.started = 1;")]
RECORD = [(RECORDER, "ring::WriteRecord(control_, index, operation);", "(void)operation;"),
          (RECORDER, "control_.records[index % ring::kRecords].ended.store(now, std::memory_order_relaxed);",
           "(void)index, (void)now;")]
COMPARISON = [(OPERATIONS, "control_.started.store(active.sequence, std::memory_order_release);", ""),
              (OPERATIONS, "parts_.failure_detector.history().Begin(active.sequence, collectives_.digest);", ""),
              (OPERATIONS, "return parts_.failure_detector.MustAudit(*active.operation);", "return false;")]
LOCKS = [(REPEAT, "if (!handle->life.EnterOperation().admitted) [[unlikely]]\n    return std::nullopt;", ""),
         (REPEAT, "const Entered entered(*handle);", ""),
         (REPEAT, "const std::lock_guard lock(communicator);", "")]
VARIANTS = {
    "as it is": [],
    "without the clock": CLOCK,
    "without the record, and its clock": CLOCK + RECORD,
    "without the comparison of calls": COMPARISON,
    "without entry count and lock": LOCKS,
    "without any of these": CLOCK + RECORD + COMPARISON + LOCKS,
}


def edit(tree, changes):
    for path, before, after in changes:
        with open(os.path.join(tree, path), encoding="utf-8") as file:
            text = file.read()
        if before not in text:
            sys.exit(f"{path} has no \"{before}\"")
        with open(os.path.join(tree, path), "w", encoding="utf-8") as file:
            file.write(text.replace(before, after, 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--keep", metavar="FOLDER", help="build in this folder and leave it")
    arguments = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parents[2]

    def run(*command, cwd=root):
        done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}:\n{done.stdout[-4000:]}")

    with tempfile.TemporaryDirectory() as temporary:
        folder = os.path.abspath(arguments.keep or temporary)
        tree = os.path.join(folder, "tree")
        if not os.path.exists(tree):
            run("git", "clone", "-q", root, tree)
        run("cmake", "--preset", "bench", "-DTUTTI_CUDA=OFF", cwd=tree)
        places = {}
        for variant, changes in VARIANTS.items():
            run("git", "checkout", "-q", ".", cwd=tree)
            edit(tree, changes)
            run("cmake", "--build", "build/bench", "--target", "tutti", cwd=tree)
            places[variant] = os.path.join(folder, variant.replace(" ", "_"))
            os.makedirs(places[variant], exist_ok=True)
            run("cp", os.path.join(tree, "build/bench/libtutti.so.0"), places[variant])
        program = os.path.join(folder, "small_calls")
        run("cc", "-O2", f"-I{root}/include", f"{root}/bench/instructions/small_calls.c", "-o", program,
            f"-L{tree}/build/bench", "-ltutti")
        times = {}  # by ranks and variant: a list of rounds, each with a time for each collective
        for _ in range(arguments.rounds):
            for ranks in arguments.ranks.split(","):
                for variant, place in places.items():
                    told = subprocess.run([program, ranks], env=os.environ | {"LD_LIBRARY_PATH": place}, check=True,
                                          stdout=subprocess.PIPE, text=True).stdout
                    times.setdefault((ranks, variant), []).append([float(each) for each in told.split()])
    print(f"{'ranks':>5}  {'ns a call of 8 B, medians':36}", *(f"{each:>11}" for each in COLLECTIVES))
    for (ranks, variant), rounds in times.items():
        medians = [statistics.median(column) for column in zip(*rounds)]
        print(f"{ranks:>5}  {variant:36}", *(f"{each:11.1f}" for each in medians))


if __name__ == "__main__":
    main()
