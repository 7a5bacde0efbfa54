"""Runs the program tutti, which the package contains: `python -m tutti run -n 4 train.py`, or `tutti run -n 4 train.py`."""

import os
import pathlib
import sys
from typing import NoReturn

PROGRAM = pathlib.Path(__file__).parent / "bin/tutti"


def main() -> NoReturn:
    if not PROGRAM.exists():
        sys.exit(f"tutti: this package was built without the program: there is no {PROGRAM} (docs/python.md)")
    # Ranks run in this Python's environment, also where it is not activated: tutti run starts the first python3.
    os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
    os.execv(PROGRAM, ["tutti", *sys.argv[1:]])


if __name__ == "__main__":
    main()
