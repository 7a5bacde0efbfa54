"""The blocks of the README and of the pages that need the package run as they stand there."""

import os
import pathlib
import subprocess
import sys

import pytest


def test_every_block_runs():
    build, wheels = os.environ.get("TUTTI_BUILD"), os.environ.get("TUTTI_WHEELS")
    if not build or not wheels or not os.path.exists(f"{build}/tools/tutti"):
        pytest.skip("needs a build with the program tutti, which starts ranks (run.sh)")
    source = pathlib.Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, source / "tests/packaging/doc_blocks/run.py", source, build, "--wheels", wheels],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout
