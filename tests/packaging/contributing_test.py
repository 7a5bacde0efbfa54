#!/usr/bin/env python3
"""Checks CONTRIBUTING.md's table of what to build and run after a change: it has every room, and its targets and tests exist.

    contributing_test.py SOURCE_DIR BUILD_DIR
"""
import json
import pathlib
import re
import subprocess
import sys

HEAD = "| changed in | build | `ctest --test-dir build/release` |"


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]*)`", cell)


def tests_of(build: pathlib.Path) -> list[tuple[str, list[str]]]:
    """All tests of a build: name and labels."""
    shown = subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1"], stdout=subprocess.PIPE, check=True)
    return [(test["name"], next((each["value"] for each in test["properties"] if each["name"] == "LABELS"), []))
            for test in json.loads(shown.stdout)["tests"]]


def fits(arguments: str, name: str, labels: list[str]) -> bool:
    """Whether ctest with these arguments, pairs of an option and a pattern, runs the test."""
    words = arguments.split()
    for option, pattern in zip(words[::2], words[1::2], strict=True):
        found = any(re.search(pattern, each) for each in ([name] if option == "-R" else labels))
        if found != {"-R": True, "-L": True, "-LE": False}[option]:
            return False
    return True


def main(source: pathlib.Path, build: pathlib.Path) -> int:
    page = (source / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = page[page.index(HEAD):].split("\n\n")[0].split("\n")[2:]
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in table]
    targets = {"all", *(build / "targets.txt").read_text(encoding="utf-8").split()}
    tests = tests_of(build)
    failures = []
    for rooms, build_cell, run_cell, *_ in rows:
        for target in " ".join(code(build_cell)).split():
            if target not in targets:
                failures.append(f"{rooms}: the build has no target {target}")
        for arguments in code(run_cell):
            if not any(fits(arguments, *test) for test in tests):
                failures.append(f"{rooms}: no test fits ctest {arguments}")
    named = {room.split("/")[0] for rooms, *_ in rows for room in code(rooms)}
    rooms = {path.parent.name for path in source.glob("*/CMakeLists.txt")} | {"docs", "scripts", "include", "interop"}
    failures += [f"the table has no row for {room}/" for room in sorted(rooms - named)]
    print("\n".join(failures) or f"all targets and tests of {len(rows)} rows exist")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])))
