#!/usr/bin/env python3
"""Prints the end of scripts/test.sh: each part with its minutes, the skipped tests with their reasons, and the failed
ones with their last lines. Exits with 1 if a part failed.

    scripts/test/summary.py FOLDER

FOLDER has `parts`, a line for each: name, exit status (77: skipped), seconds and last line of output, between tabs; and
for each part that ran tests what ctest wrote: PART.xml, and PART-alone.xml for those that ran again alone.
"""
import collections
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

SKIPPED = 77
LAST_LINES = 25
LAST_OF_MANY = 10  # so many failed tests show their last lines
NAMES = 3  # so many of the tests with one reason are named

Test = collections.namedtuple("Test", "name outcome output")


def tests_in(name, output):
    """What ran in one test of ctest, if that is a part of a suite (cmake/emulated_suites.cmake)."""
    prefix = name.split(", part ")[0]
    tests = []
    for block in re.split(r"^\[ RUN      \] ", output, flags=re.M)[1:]:
        test, _, said = block.partition("\n")
        end = re.search(r"^\[ +(OK|SKIPPED|FAILED) +\] ", said, re.M)
        outcome = {"OK": "passed", "SKIPPED": "skipped"}.get(end[1] if end else "", "failed")
        tests.append(Test(prefix[: -len(test.split(".")[0])] + test, outcome, said[: end.start()] if end else said))
    return tests


def read_tests(file):
    """The tests in a file of ctest; nothing if it ran none."""
    if not file.exists():
        return []
    tests = []
    for case in ElementTree.parse(file).getroot().iter("testcase"):
        if case.get("status") == "disabled":
            continue
        output = case.findtext("system-out") or ""
        if case.find("skipped") is not None:
            outcome = "skipped"
        else:
            outcome = "passed" if case.get("status") == "run" else "failed"
        name = case.get("name").split("  # GetParam")[0]  # what ctest adds is not for reading
        within = tests_in(name, output) if ", part " in name else []
        if outcome == "failed" and within and all(test.outcome != "failed" for test in within):
            within[-1] = within[-1]._replace(outcome="failed")  # the process failed behind its last test
        tests.extend(within or [Test(name, outcome, output)])
    return tests


def reason_of(test):
    """Why a test was skipped: what GoogleTest printed below "Skipped", or a script's last line."""
    found = re.search(r": Skipped\n(.+)", test.output)
    lines = [line for line in test.output.splitlines() if line.strip()]
    return found[1] if found else lines[-1] if lines else "it did not say why"


def list_of(names):
    return ", ".join(names[:NAMES]) + (f" and {len(names) - NAMES} more" if len(names) > NAMES else "")


def main():
    folder = pathlib.Path(sys.argv[1])
    rows, skipped, failed, alone = [], collections.defaultdict(list), [], []
    counts = collections.Counter()
    targets = set()
    for line in (folder / "parts").read_text(errors="replace").splitlines():
        part, status, seconds, last = line.split("\t", 3)
        first = read_tests(folder / f"{part}.xml")
        again = {test.name: test for test in read_tests(folder / f"{part}-alone.xml")}
        tests = [again.get(test.name, test) for test in first]
        number = collections.Counter(test.outcome for test in tests)
        counts += number
        for test in tests:
            targets.update(re.findall(r"^SIMD targets tested.*", test.output, re.M))
            if test.outcome == "skipped":
                skipped[reason_of(test)].append(test.name)
            elif test.outcome == "failed":
                failed.append((part, test))
            elif test.name in again:
                alone.append(f"{test.name} ({part})")
        said = ", ".join(f"{n:,} {outcome}" for outcome, n in sorted(number.items()))
        if int(status) == SKIPPED:
            said = f"skipped: {last}"
        elif int(status) != 0:
            said = "FAILED: " + (said if number["failed"] else last)
            if not number["failed"]:
                counts["failed"] += 1
        rows.append((part, int(seconds), said))

    for part, test in failed[:LAST_OF_MANY]:
        print(f"[test] {part}: {test.name} failed; its last lines:")
        print("".join(f"    {line[:400]}\n" for line in test.output.splitlines()[-LAST_LINES:]), end="")
    for text in sorted(targets):
        print(f"[test] {text}")
    for reason, names in sorted(skipped.items()):
        print(f"[test] skipped: {reason}: {list_of(names)}")
    if alone:
        print(f"[test] failed beside others, passed alone: {', '.join(alone)}")
    if failed:
        print(f"[test] failed: {', '.join(f'{test.name} ({part})' for part, test in failed)}")
    for part, seconds, said in rows:
        print(f"[test] {part:15}{seconds / 60:5.1f} min  {said or 'done'}")
    verdict = "FAILED" if counts["failed"] else "passed"
    print(f"[test] {verdict} in {sum(row[1] for row in rows) / 60:.1f} min")
    # Continuous integration reads this line.
    print(f"tests: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
