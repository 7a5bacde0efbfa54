"""The blocks of the README and of the pages that need the package run as they stand there."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

from tutti import _core


def test_every_block_runs():
    build, wheels = os.environ.get("TUTTI_BUILD"), os.environ.get("TUTTI_WHEELS")
    if not build or not wheels or not os.path.exists(f"{build}/tools/tutti"):
        pytest.skip("needs a build with the program tutti, which starts ranks (run.sh)")
    source = pathlib.Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, source / "tests/packaging/doc_blocks/run.py", source, build, "--wheels", wheels],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout


def test_the_reference_has_the_compiled_docstrings():
    folder = pathlib.Path(__file__).resolve().parents[1]
    script = folder.parents[1] / "scripts/docs/python_reference.py"
    spec = importlib.util.spec_from_file_location("python_reference", script)
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    package = reference.read_package(folder)
    compared = 0
    for owner in (_core.Communicator, _core.Stream, _core.Work):
        for name, thing in vars(owner).items():
            if not name.startswith("_") and thing.__doc__:
                # A function's own begins with its signature.
                assert thing.__doc__.endswith(package[owner.__name__].members[name].doc), name
                assert package[owner.__name__].members[name].doc, name
                compared += 1
    assert compared > 25
