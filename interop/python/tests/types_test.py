"""The stub says what the compiled module takes."""

import ast
import os
import re
import subprocess
import sys

import pytest

import tutti
from tutti import _core


def parameters(text):
    """{class.function: names of parameters}, of the source of a stub."""
    found = {}
    for node in ast.parse(text).body:
        functions = [node] if isinstance(node, ast.FunctionDef) else getattr(node, "body", [])
        for function in functions:
            if isinstance(function, ast.FunctionDef):
                owner = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
                names = function.args
                found[owner + function.name] = [one.arg for one in names.posonlyargs + names.args + names.kwonlyargs]
    return found


def test_the_stub_is_that_of_the_module():
    with open(os.path.join(os.path.dirname(tutti.__file__), "_core.pyi"), encoding="utf-8") as file:
        stub = parameters(file.read())
    compared = 0
    for owner in (_core.Communicator, _core.Stream, _core.Tail, _core.Work, _core.Group):
        for name, function in vars(owner).items():
            signature = getattr(function, "__nb_signature__", None)
            if signature is None or name.startswith("_") or isinstance(function, property):
                continue
            # Defaults are numbered there: \\0.
            real = parameters(re.sub(r"\\\d", "None", signature[0][0]) + ": ...")[name]
            assert stub[f"{owner.__name__}.{name}"] == real, name
            compared += 1
    assert compared > 20


@pytest.mark.parametrize("package", ["tutti", "tutti.parallel"])
def test_everything_public_is_documented(package):
    module = pytest.importorskip(package, exc_type=ImportError)
    for name in module.__all__:
        thing = getattr(module, name)
        assert thing.__doc__, name
        for member, value in vars(thing).items() if isinstance(thing, type) else ():
            # A module of PyTorch is described by its class.
            if not member.startswith("_") and member != "forward" and callable(value):
                assert value.__doc__, f"{name}.{member}"


def test_type_checkers_accept_the_package_and_a_program():
    pytest.importorskip("mypy")
    here = os.path.dirname(os.path.abspath(__file__))
    for checked in (["-p", "tutti"], [os.path.join(here, "typed_example.py")]):
        done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, *checked],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        assert done.returncode == 0, done.stdout
