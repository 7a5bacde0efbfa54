#!/usr/bin/env python3
"""Random faults on clusters of namespaces: every survivor gets an answer that names who is at fault, no result is ever
wrong, what is no fault raises no alarm, and survivors go on.

Each trial follows from the seed and its number alone; --only replays one. Exit status: 0 if nothing was found, 77 where
this machine cannot make such clusters."""

import argparse
import concurrent.futures
import os
import pathlib
import signal
import sys
import textwrap
import time

sys.dont_write_bytecode = True  # nothing is left in the source tree
from campaign import cluster, judge, trial  # noqa: E402
from campaign.table import Table  # noqa: E402

# Counted from the last act. The slowest case is to detect silent ranks in several communicators, one after the other.
LIMIT_SECONDS = 40
CANNOT = cluster.CANNOT
COLUMNS = [*judge.SORTS, judge.VOID]


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=pathlib.Path, help="this project")
    parser.add_argument("build", type=pathlib.Path, help="where it was built")
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first trial's number")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="only trials of these numbers, such as 3,5: with all that their ranks say")
    parser.add_argument("--kinds", help="only faults of these kinds, such as flooded,flooded_shrink; all are as likely")
    parser.add_argument("--jobs", type=int, default=4, help="clusters at a time")
    parser.add_argument("--list", action="store_true", help="say what the trials are, and do nothing")
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
    # Prints the table and stops the clusters, however the campaign ends.
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
