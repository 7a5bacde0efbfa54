#!/usr/bin/env python3
"""Causes random faults on clusters of namespaces, and checks that every survivor gets an error that names a rank at
fault, that no result is wrong, that harmless events raise no alarm, and that survivors continue.

Each trial depends only on the seed and its number; --only replays single trials. Exit status: 0 if no trial failed, 77
if this machine cannot run such clusters."""

import argparse
import concurrent.futures
import os
import pathlib
import signal
import sys
import textwrap
import time

sys.dont_write_bytecode = True  # keeps the source tree clean
from campaign import cluster, judge, trial  # noqa: E402
from campaign.table import Table  # noqa: E402

# The time limit after the last act. The slowest case is the detection of silent ranks in several communicators in turn.
LIMIT_SECONDS = 40
CANNOT = cluster.CANNOT
COLUMNS = [*judge.SORTS, judge.VOID]


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=pathlib.Path, help="source directory of this project")
    parser.add_argument("build", type=pathlib.Path, help="its build directory")
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first trial's number")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="numbers of the trials to run, such as 3,5; prints their ranks' output")
    parser.add_argument("--kinds", help="only these kinds of fault, such as flooded,flooded_shrink, all equally likely")
    parser.add_argument("--jobs", type=int, default=4, help="clusters that run at a time")
    parser.add_argument("--list", action="store_true", help="print the trials without running them")
    return parser.parse_args(arguments)


def report(options, one, record, bad):
    verdict = "ok" if not bad else "VOID" if bad[0][0] == judge.VOID else "FAILED"
    print(f"{verdict} after {record.seconds:.1f} s: {one}")
    for sort, sentence in bad:
        print(f"  {sort.upper()}: {sentence}")
    if bad:
        print(f"  replay: {sys.argv[0]} {options.source} {options.build} --seed {options.seed} --only {one.number}"
              + (f" --kinds {options.kinds}" if options.kinds else ""))
    if bad or options.only is not None:
        print(textwrap.indent(record.output, "    "))
    sys.stdout.flush()


def main():
    options = parse(sys.argv[1:])
    numbers = range(options.first, options.first + options.trials)
    if options.only is not None:
        numbers = map(int, options.only.split(","))
    kinds = options.kinds.split(",") if options.kinds else None
    trials = [trial.derive(options.seed, number, kinds) for number in numbers]
    if options.list:
        print("\n".join(map(str, trials)))
        return 0
    program = options.build / "tests/tutti_host_rank"
    run = lambda one: cluster.run(one, options.source, program, f"campaign-{os.getpid()}-{one.number}", LIMIT_SECONDS)
    # SIGTERM also stops the clusters and prints the table.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    table, failed, stopped, began = Table("fault", COLUMNS), 0, False, time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        pending = {pool.submit(run, one): one for one in trials}
        try:
            for future in concurrent.futures.as_completed(pending):
                one, record = pending[future], future.result()
                bad = judge.judge(one, record)
                sorts = {sort for sort, _ in bad}
                table.add(one.kind, sorts)
                failed += bool(sorts - {judge.VOID})
                report(options, one, record, bad)
        except NotImplementedError as reason:
            pool.shutdown(cancel_futures=True)
            print(reason)
            return CANNOT
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            stopped = True
    seconds = time.monotonic() - began
    print(f"\n{table}\n\nseed {options.seed}, {table.trials.total()} trials in {seconds:.0f} s: {failed} failed")
    if stopped:
        print("stopped before the end")
    return 1 if failed or stopped else 0


if __name__ == "__main__":
    sys.exit(main())
