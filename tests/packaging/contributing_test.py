#!/usr/bin/env python3
"""Checks CONTRIBUTING.md's table of what to build and run after a change: it has every room, and its targets and tests exist.

    contributing_test.py SOURCE_DIR BUILD_DIR
"""
import pathlib
import re
import shlex
import subprocess
import sys

HEAD = "| changed in | build | `ctest --test-dir build/release` |"


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]*)`", cell)


def main(source: pathlib.Path, build: pathlib.Path) -> int:
    page = (source / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = page[page.index(HEAD):].split("\n\n")[0].split("\n")[2:]
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in table]
    targets = {"all", *(build / "targets.txt").read_text(encoding="utf-8").split()}
    failures = []
    for rooms, build_cell, run_cell, *_ in rows:
        for target in " ".join(code(build_cell)).split():
            if target not in targets:
                failures.append(f"{rooms}: the build has no target {target}")
        for arguments in code(run_cell):
            listed = subprocess.run(["ctest", "--test-dir", str(build), "-N", *shlex.split(arguments)], check=True,
                                    stdout=subprocess.PIPE, text=True).stdout
            if re.search(r"Total Tests: 0$", listed, re.M):
                failures.append(f"{rooms}: no test fits ctest {arguments}")
    named = {room.split("/")[0] for rooms, *_ in rows for room in code(rooms)}
    rooms = {path.parent.name for path in source.glob("*/CMakeLists.txt")} | {"docs", "scripts", "include", "interop"}
    failures += [f"the table has no row for {room}/" for room in sorted(rooms - named)]
    print("\n".join(failures) or f"all targets and tests of {len(rows)} rows exist")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])))
