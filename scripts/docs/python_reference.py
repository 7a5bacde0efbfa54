#!/usr/bin/env python3
"""Writes the reference of the Python package as Markdown, without importing it.

    python_reference.py [FOLDER]      default: interop/python

Classes and functions come from tutti/*.py. What is compiled has its signature in tutti/_core.pyi and its docstring in
src/*.cc, beside the function. A public name without a docstring is an error.
"""
import ast
import dataclasses
import pathlib
import re
import sys
import textwrap

# What the package exports, by kind, in the order of the page.
SECTIONS = {"Functions": ("init", "unique_id", "group", "library_version", "settings"),
            "Classes": ("Communicator", "Stream", "Work", "Group", "Op", "Result"),
            "Errors": ("Error", "InvalidArgumentError", "InvalidUsageError", "RemoteError", "TimeoutError",
                       "OperatingSystemError", "CudaError", "InternalError")}
STRING = r'"(?:[^"\\]|\\.)*"'
# A binding of nanobind: from .def("name" to its docstring, the last argument, of adjacent strings.
BINDING = re.compile(r'(?:\.def|\.def_prop_ro|module\.def)\(\s*"(?P<name>\w+)"(?P<rest>.*?)'
                     r'(?=\s*(?:\.def|\.def_prop_ro|module\.def)\(|;\n(?: {0,2}\S|\n))', re.DOTALL)
DOCUMENTED = re.compile(rf',\s*(?P<doc>{STRING}(?:\s*{STRING})*)\)\s*$')
CLASS = re.compile(r'nb::class_<(?P<name>\w+)>\(module, "\w+"(?P<rest>[^;]*?)\)\s*\.def', re.DOTALL)


@dataclasses.dataclass
class Named:
    """A function, property or class: its signature, its docstring, and the members of a class."""

    name: str
    signature: str
    doc: str
    bases: list[str] = dataclasses.field(default_factory=list)
    members: dict[str, "Named"] = dataclasses.field(default_factory=dict)
    values: list[str] = dataclasses.field(default_factory=list)


def c_text(literals: str) -> str:
    return "".join(ast.literal_eval(one) for one in re.findall(STRING, literals))


def compiled_docs(folder: pathlib.Path) -> dict[str, str]:
    """{function, class, or class.member: docstring} of the compiled module."""
    found: dict[str, str] = {}
    for source in sorted(folder.glob("*.cc")):
        text = source.read_text(encoding="utf-8")
        owners = [(match.start(), match["name"]) for match in CLASS.finditer(text)]
        owners = sorted(owners + [(match.start(), "Communicator") for match in re.finditer(r"communicator\s*\.def", text)])
        for match in BINDING.finditer(text):
            documented = DOCUMENTED.search(match["rest"])
            owner = next((name for place, name in reversed(owners) if place <= match.start()), "")
            if documented:
                key = match["name"] if "module.def" in match.group()[:12] else f"{owner}.{match['name']}"
                found[key] = c_text(documented["doc"])
        for match in CLASS.finditer(text):
            documented = re.search(rf"({STRING}\s*)+$", match["rest"])
            if documented:
                found[match["name"]] = c_text(documented.group())
    return found


def signature_of(function: ast.FunctionDef) -> str:
    arguments = re.sub(r"^self(, )?", "", ast.unparse(function.args)).removeprefix("/, ")
    returned = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    return f"{function.name}({arguments}){returned}"


def is_overload(function: ast.FunctionDef) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "overload" for one in function.decorator_list)


def without_types(function: ast.FunctionDef) -> ast.FunctionDef:
    arguments = function.args
    for one in arguments.posonlyargs + arguments.args + arguments.kwonlyargs:
        one.annotation = None
    function.returns = None
    return function


def is_property(function: ast.FunctionDef) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "property" for one in function.decorator_list)


def read_class(node: ast.ClassDef) -> Named:
    found = Named(node.name, node.name, ast.get_docstring(node) or "", 
                  [base for base in map(ast.unparse, node.bases) if not base.startswith("Generic[")])
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and not part.name.startswith("_"):
            returned = ast.unparse(part.returns) if part.returns else "Any"
            # Several overloads differ in types; the last one has all parameters.
            told = without_types(part) if is_overload(part) else part
            plain = f"{part.name}: {returned}" if is_property(part) else signature_of(told)
            found.members[part.name] = Named(part.name, plain, ast.get_docstring(part) or "")
        elif isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name) and part.targets[0].id.isupper():
            found.values.append(f"{part.targets[0].id} = {ast.unparse(part.value)}")
    return found


def read_module(path: pathlib.Path) -> dict[str, Named]:
    found: dict[str, Named] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = read_class(node)
        elif isinstance(node, ast.FunctionDef):
            found[node.name] = Named(node.name, signature_of(node), ast.get_docstring(node) or "")
    return found


def read_package(folder: pathlib.Path) -> dict[str, Named]:
    """Every name of the package, with inherited members of compiled classes."""
    stub, docs = read_module(folder / "tutti/_core.pyi"), compiled_docs(folder / "src")
    for name, thing in stub.items():
        thing.doc = thing.doc or docs.get(name, "")
        for member in thing.members.values():
            member.doc = member.doc or docs.get(f"{name}.{member.name}", "")
    found = dict(stub)
    for path in sorted((folder / "tutti").glob("*.py")):
        for name, thing in read_module(path).items():
            if f"_core.{name}" in thing.bases:
                thing.members = stub[name].members | thing.members
                thing.bases = []
            found[name] = thing
    return found


def page(package: dict[str, Named], exported: set[str]) -> str:
    listed = {name for names in SECTIONS.values() for name in names}
    if listed != exported:
        raise SystemExit(f"SECTIONS and tutti.__all__ differ: {sorted(listed ^ exported)}")
    out = ["# The Python API", "", "What `import tutti` gives, with the docstrings of the package. "
           "[Python](python.md) has the names beside those of mpi4py and torch.distributed.", "",
           "`Lent` is an object that lends contiguous memory: by the buffer protocol, DLPack, or an array interface of "
           "NumPy or CUDA. `Op` is the name of an operator or a `tutti.Op`. A `stream` is a `tutti.Stream`, with which "
           "a call returns a `Work`; for arrays on a GPU also a CUDA stream.", ""]

    def add(level: str, title: str, thing: Named) -> None:
        if not thing.doc:
            raise SystemExit(f"{title} has no docstring")
        # In a docstring, a line with a name, spaces and a text is an entry of a list.
        doc = re.sub(r"^(\w+) {2,}(?=\S)", r"- `\1`: ", thing.doc, flags=re.MULTILINE)
        out.extend([f"{level} {title}", "", "```python", textwrap.fill(thing.signature, 110, subsequent_indent="    "),
                    "```", "", doc, ""])

    for section, names in SECTIONS.items():
        out += [f"## {section}", ""]
        for name in names:
            thing = package[name]
            if thing.bases:
                thing.signature = f"class {name}({', '.join(thing.bases)})"
            elif thing.members:
                thing.signature = f"class {name}"
            add("###", name, thing)
            if thing.values:
                out += ["```python", *thing.values, "```", ""]
            for member in thing.members.values():
                add("####", f"{name}.{member.name}", member)
    return "\n".join(out)


def main() -> int:
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "interop/python")
    exported = re.search(r"__all__ = (\[.*?\])", (folder / "tutti/__init__.py").read_text(encoding="utf-8"), re.DOTALL)
    assert exported
    print(page(read_package(folder), set(ast.literal_eval(exported[1]))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
