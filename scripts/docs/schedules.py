"""Schedules as `tutti show` prints them, for the scripts that draw what ranks do."""
import re
import subprocess


def shown(tutti, collective, algorithm, ranks, *options):
    """[rank][channel][lane][step]: the steps' texts, without their numbers."""
    command = [tutti, "show", collective, algorithm, "--ranks", str(ranks), *options]
    schedules = []
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        if line.startswith(collective):
            schedules.append([])
        elif line.startswith("channel"):
            schedules[-1].append([])
        elif line.startswith("  lane"):
            schedules[-1][-1].append([])
        else:
            schedules[-1][-1][-1].append(re.sub(r"^ *\d+: ", "", line))
    return schedules
