"""Puts the results of suites.sh side by side: FOLDER/tests.tsv has a line for each test, and a table goes to stdout.

    python suite_table.py FOLDER           FOLDER has SUITE.RANKS.gloo.tsv and SUITE.RANKS.tutti.tsv (suite.py)
"""

import glob
import os
import sys

OUTCOMES = ("passed", "failed", "skipped")


def read(folder):
    """(suite, ranks) -> test -> backend -> (outcome, reason)"""
    results = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.*.*.tsv"))):
        suite, ranks, backend = os.path.basename(path)[:-len(".tsv")].rsplit(".", 2)
        tests = results.setdefault((suite, ranks), {})
        with open(path) as file:
            for line in file:
                test, outcome, reason = line.rstrip("\n").split("\t")
                tests.setdefault(test, {})[backend] = (outcome, reason)
    return results


def reason(on):
    """Why a test does not pass on tutti; if it passes there, or nothing is known of it there, why not on Gloo."""
    for backend in ("tutti", "gloo"):
        outcome, why = on.get(backend, ("", ""))
        if outcome not in ("", "passed"):
            return why if backend == "tutti" else f"Gloo: {why}"
    return ""


def counts(tests, backend):
    outcomes = [on[backend][0] for on in tests.values() if backend in on]
    return " / ".join(str(outcomes.count(outcome)) for outcome in OUTCOMES) if outcomes else "-"


def main():
    folder = sys.argv[1]
    results = read(folder)
    with open(os.path.join(folder, "tests.tsv"), "w") as file:
        print("suite", "test", "ranks", "gloo", "tutti", "reason", sep="\t", file=file)
        for (suite, ranks), tests in results.items():
            for test, on in sorted(tests.items()):
                print(suite, test, ranks, *(on.get(backend, ("-",))[0] for backend in ("gloo", "tutti")), reason(on),
                      sep="\t", file=file)
    print("| tests | ranks | Gloo: passed / failed / skipped | tutti |")
    print("|---|---|---|---|")
    for (suite, ranks), tests in results.items():
        print(f"| {suite} | {ranks} | {counts(tests, 'gloo')} | {counts(tests, 'tutti')} |")
    for (suite, ranks), tests in results.items():
        for test, on in sorted(tests.items()):
            if on.get("tutti", ("",))[0] == "failed" and on.get("gloo", ("passed",))[0] == "passed":
                print(f"    {suite}, {ranks} ranks, {test}: {on['tutti'][1]}")


if __name__ == "__main__":
    main()
