#!/usr/bin/env python3
"""What libnccl.so.2 does with each of NCCL's functions, from interop/nccl/functions.tsv.

  scripts/docs/nccl_functions.py table              the table of docs/nccl.md
  scripts/docs/nccl_functions.py compare [VERSION]  what NVIDIA's NCCL of that version (default: the newest) has and we
                                                    have not, and the other way round; fetches its wheel from PyPI
  scripts/docs/nccl_functions.py compare FILE       likewise for a libnccl.so.2 that is at hand

`compare` exits with 1 if a function is missing.
"""
import io
import pathlib
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FUNCTIONS = ROOT / "interop" / "nccl" / "functions.tsv"
PACKAGE = "nvidia-nccl-cu13"
WORDS = {"works": "as in NCCL", "differs": "differs", "refused": "refused"}


def functions():
    rows = [line.split("\t") for line in FUNCTIONS.read_text().splitlines()]
    return [(name, WORDS[state], note) for name, state, note in rows]


def table():
    """A row for each group of functions of which the same is said."""
    groups = {}
    for name, state, note in functions():
        groups.setdefault((state, note), []).append(name)
    print("| function | here | how, or why |\n|---|---|---|")
    for word in WORDS.values():
        for (state, note), names in groups.items():
            if state == word:
                print(f"| {', '.join(f'`{name}`' for name in names)} | {state} | {note} |")


def library_of(version):
    """The library out of NVIDIA's wheel."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = PACKAGE + (f"=={version}" if version else "")
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", wanted, "-d", folder], check=True)
        wheel = next(pathlib.Path(folder).glob("*.whl"))
        print(wheel.name)
        with zipfile.ZipFile(wheel) as archive:
            return archive.read("nvidia/nccl/lib/libnccl.so.2")


def exported(path):
    lines = subprocess.run(["nm", "-D", "--defined-only", path], check=True, capture_output=True, text=True).stdout
    names = {line.split()[-1].split("@")[0] for line in io.StringIO(lines)}
    # A function of the API has a second name for profilers.
    return {name for name in names if name.startswith("nccl") and f"p{name}" in names}


def compare(which):
    if which and pathlib.Path(which).exists():
        theirs = exported(which)
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(library_of(which))
            file.flush()
            theirs = exported(file.name)
    ours = {name for name, _, _ in functions()}
    for what, names in (("missing here", theirs - ours), ("not there", ours - theirs)):
        print(f"{what}: {len(names)}", *sorted(names))
    return 1 if theirs - ours else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["table"]:
        table()
    elif sys.argv[1:2] == ["compare"] and len(sys.argv) <= 3:
        sys.exit(compare(sys.argv[2] if len(sys.argv) == 3 else None))
    else:
        sys.exit(__doc__)
