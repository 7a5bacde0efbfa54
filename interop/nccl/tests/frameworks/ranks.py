#!/usr/bin/env python3
"""Runs one start-up test in as many processes as it has ranks, and prints its result as a line of a table.

    ranks.py --ranks N [--limit SECONDS] [--lost RANK] [--name NAME] [--version VERSION] LOG PYTHON TEST [ARGUMENTS]

The processes find each other as torchrun's do, by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. LOG is a folder for
their output. A rank passes if it reports and exits with 0; the rank of --lost must instead be killed by a signal. Those
that run at the limit are killed and fail. Columns, separated by tabs: name, version, ranks, result, how far it got, why
not further, seconds.
"""
import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import textwrap
import time

from steps import REPORT

FIRST_PORT, LAST_PORT = 20000, 32000  # below those that the system assigns to connections
LONGEST_REASON = 180  # of a refusal that was expected, in the table; the log has all of it


def start(arguments, folder, port):
    processes = []
    for rank in range(arguments.ranks):
        environment = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(arguments.ranks),
                           MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), FRAMEWORKS_FOLDER=str(folder))
        with open(folder / f"{rank}.log", "wb") as log:
            processes.append(subprocess.Popen(arguments.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                              env=environment, start_new_session=True))
    return processes


def wait(processes, limit):
    """The exit codes; None for those that had to be stopped."""
    end = time.monotonic() + limit
    codes = []
    for process in processes:
        try:
            codes.append(process.wait(max(0, end - time.monotonic())))
        except subprocess.TimeoutExpired:
            codes.append(None)
    for process in processes:
        try:
            os.killpg(process.pid, signal.SIGKILL)  # with all that it started
        except ProcessLookupError:
            pass
        process.wait()
    return codes


def ending(code):
    if code is None:
        return "did not end in time"
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"


def read_report(log):
    for line in log.read_text(errors="replace").splitlines():
        if line.startswith(REPORT):
            return json.loads(line[len(REPORT):])
    return None


def judge(arguments, folder, codes):
    """Whether all passed, how far rank 0 got, and why not further, for a person."""
    passed, reached, reasons = True, "nothing", []
    for rank, code in enumerate(codes):
        report = read_report(folder / f"{rank}.log")
        if rank == arguments.lost:
            if code is None or code >= 0:
                passed, reasons = False, reasons + [f"rank {rank} was to be killed: {ending(code)}"]
            continue
        if report is None or code != 0 or report["failed"]:
            passed = False
            failed = report["failed"] if report else {}
            reasons += [f"rank {rank}, {step}: {why}" for step, why in failed.items()]
            reasons += [f"rank {rank}: {ending(code)}"] if code != 0 and not failed else []
        if rank == 0 and report is not None:
            reached = ", ".join(report["passed"])
            reasons += [f"{step}: {textwrap.shorten(why, LONGEST_REASON, placeholder='...')}"
                        for step, why in report["refused"].items()]
    return passed, reached, "; ".join(reasons)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--limit", type=float, default=120)
    parser.add_argument("--lost", type=int)
    parser.add_argument("--name", default="")
    parser.add_argument("--version", default="")
    parser.add_argument("log", type=pathlib.Path)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    arguments.log.mkdir(parents=True, exist_ok=True)
    for old in arguments.log.iterdir():
        old.unlink()
    began = time.monotonic()
    processes = start(arguments, arguments.log, random.randrange(FIRST_PORT, LAST_PORT))
    codes = wait(processes, arguments.limit)
    passed, reached, reason = judge(arguments, arguments.log, codes)
    row = [arguments.name, arguments.version, str(arguments.ranks), "passed" if passed else "FAILED", reached, reason,
           f"{time.monotonic() - began:.0f}"]
    print("\t".join(" ".join(cell.split()) for cell in row))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
