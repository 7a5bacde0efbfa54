"""The stub says what the compiled module takes."""

import ast
import json
import os
import pathlib
import re
import shutil
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
    if package == "tutti.parallel":
        pytest.importorskip("torch")  # its modules are PyTorch's
    for name in module.__all__:
        thing = getattr(module, name)
        assert thing.__doc__, name
        for member, value in vars(thing).items() if isinstance(thing, type) else ():
            # A module of PyTorch is described by its class.
            if not member.startswith("_") and member != "forward" and callable(value):
                assert value.__doc__, f"{name}.{member}"


HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[2]
PAGES = ("docs/tutorial_python.md", "docs/python.md")
# What the arithmetic of NumPy gives is in parts unknown to pyright.
PYRIGHT = {"typeCheckingMode": "strict", "reportUnnecessaryTypeIgnoreComment": "error", "reportUnknownMemberType": "none",
           "reportMissingTypeStubs": "none"}


@pytest.fixture
def programs(tmp_path):
    """A folder with the example, and every block of Python of the pages, as a program."""
    sys.path.insert(0, str(SOURCE / "tests/packaging/doc_blocks"))
    import blocks

    shutil.copy(HERE / "typed_example.py", tmp_path)
    for page in PAGES:
        for block in blocks.of((SOURCE / page).read_text(encoding="utf-8")):
            if block.language == "python":
                name = f"{pathlib.Path(page).stem}_line_{block.line}.py"
                (tmp_path / name).write_text(blocks.framed(block, block.text), encoding="utf-8")
    assert len(list(tmp_path.iterdir())) > len(PAGES)
    return tmp_path


def accepts(checker, *arguments, folder=HERE):
    done = subprocess.run([sys.executable, "-m", checker, *map(str, arguments)], cwd=folder, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("checked", ["package", "programs"])
def test_mypy_accepts(checked, programs):
    pytest.importorskip("mypy")
    accepts("mypy", "--strict", "--cache-dir", os.devnull,
            *(("-p", "tutti") if checked == "package" else ("--scripts-are-modules", *programs.glob("*.py"))))


def test_pyright_accepts_programs(programs):
    pytest.importorskip("pyright")
    (programs / "pyrightconfig.json").write_text(json.dumps(PYRIGHT), encoding="utf-8")
    accepts("pyright", "--pythonpath", sys.executable, folder=programs)
