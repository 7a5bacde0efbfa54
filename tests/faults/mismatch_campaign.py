#!/usr/bin/env python3
"""Makes random calls that do not match, on two to five ranks. Every rank must get an error, with the right code and
naming both calls and both ranks, within a second after all ranks have called, at the latest in its next collective. No
rank may hang, and no result may be wrong.

Each trial depends only on the seed and its number; --only replays single trials. Exit status: 0 if no trial failed."""

import argparse
import pathlib
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True  # keeps the source tree clean
from campaign import mismatch  # noqa: E402
from campaign.table import Table  # noqa: E402


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path, help="build directory of this project")
    parser.add_argument("--trials", type=int, default=10000)
    parser.add_argument("--first", type=int, default=0, help="the first trial's number")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="numbers of the trials to run, such as 3,5; prints their ranks' reports")
    parser.add_argument("--jobs", type=int, default=2, help="trials that run at a time")
    parser.add_argument("--late-ms", type=float, default=mismatch.ANSWER_MS, help="ms after which an error is late")
    parser.add_argument("--list", action="store_true", help="print the trials without running them")
    return parser.parse_args(arguments)


def told_by(program, trial):
    """The reports of the trial's ranks, by rank. The program runs one trial at a time and ends each by a timeout."""
    program.stdin.write(trial.line() + "\n")
    program.stdin.flush()
    told = {}
    while len(told) < trial.ranks:
        number, rank, one = mismatch.parse(program.stdout.readline())
        assert number == trial.number
        told[rank] = one
    return told


class Campaign:
    def __init__(self, options, trials):
        self.options, self.trials = options, iter(trials)
        self.table = Table("disagreement", mismatch.SORTS)
        self.failed, self.rooted, self.slowest = 0, 0, 0.0
        self.lock = threading.Lock()

    def work(self):
        program = subprocess.Popen([self.options.build / "tests/tutti_mismatch_ranks"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        while True:
            with self.lock:
                trial = next(self.trials, None)
            if trial is None:
                break
            told = told_by(program, trial)
            with self.lock:
                self.take(trial, told)
        program.stdin.close()
        program.wait()

    def take(self, trial, told):
        bad = mismatch.judge(told, self.options.late_ms)
        self.table.add(trial.kind, {sort for sort, _ in bad})
        self.rooted += trial.rooted()
        self.failed += bool(bad)
        self.slowest = max(self.slowest, *(one.ms for one in told.values()))
        if not bad and self.options.only is None:
            return
        print(f"{'FAILED' if bad else 'ok'}: {trial}")
        for sort, sentence in bad:
            print(f"  {sort.upper()}: {sentence}")
        if bad:
            print(f"  replay: {sys.argv[0]} {self.options.build} --seed {self.options.seed} --only {trial.number}")
        if self.options.only is not None:
            for rank, one in sorted(told.items()):
                print(f"    rank {rank}, {one.stage}, {one.ms:.1f} ms: {one.answer} {one.sentence}")
        sys.stdout.flush()


def main():
    options = parse(sys.argv[1:])
    numbers = range(options.first, options.first + options.trials)
    if options.only is not None:
        numbers = list(map(int, options.only.split(",")))
    trials = (mismatch.derive(options.seed, number) for number in numbers)
    if options.list:
        print("\n".join(map(str, trials)))
        return 0
    campaign, began = Campaign(options, trials), time.monotonic()
    workers = [threading.Thread(target=campaign.work) for _ in range(options.jobs)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    seconds = time.monotonic() - began
    print(f"\n{campaign.table}\n\nseed {options.seed}, {campaign.table.trials.total()} trials in {seconds:.0f} s, "
          f"{campaign.rooted} of rooted collectives alone; the slowest answer came after {campaign.slowest:.0f} ms; "
          f"{campaign.failed} failed")
    return 1 if campaign.failed or campaign.table.trials.total() != len(numbers) else 0


if __name__ == "__main__":
    sys.exit(main())
