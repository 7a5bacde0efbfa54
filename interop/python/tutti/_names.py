"""What is wrong with the arguments of a call, in Python's words."""

from __future__ import annotations

import ast
import difflib
import inspect
import re
import reprlib
from typing import Iterable

_UNEXPECTED = re.compile("unexpected keyword argument '(.*)'")


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """"; did you mean 'sum'?", or nothing if no name is near."""
    near = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _parsed(signature: str) -> tuple[str, inspect.Signature, dict[str, str]]:
    """The function's name, what it takes, and the types of its parameters as text."""
    function = ast.parse(re.sub(r"\\\d+", "None", signature) + ": ...").body[0]  # defaults are numbered: \\0
    assert isinstance(function, ast.FunctionDef)
    takes = function.args
    first_default = len(takes.args) - len(takes.defaults)
    kind = inspect.Parameter
    parameters = [kind(one.arg, kind.POSITIONAL_OR_KEYWORD, default=kind.empty if i < first_default else None)
                  for i, one in enumerate(takes.args)]
    parameters += [kind(one.arg, kind.KEYWORD_ONLY, default=None if default else kind.empty)
                   for one, default in zip(takes.kwonlyargs, takes.kw_defaults)]
    types = {one.arg: ast.unparse(one.annotation) for one in takes.args + takes.kwonlyargs if one.annotation}
    return function.name, inspect.Signature(parameters[1:]), types


def refusal(signature: str, positional: list[object], named: dict[str, object]) -> str | None:
    """Why a compiled function of this signature, in nanobind's form, has refused arguments; None: it is not known."""
    name, takes, types = _parsed(signature)
    known = f"(it takes {', '.join(takes.parameters)})" if takes.parameters else "(it takes nothing)"
    try:
        bound = takes.bind(*positional, **named)
    except TypeError as error:
        unexpected = _UNEXPECTED.search(str(error))
        return f"{name}() {error}{did_you_mean(unexpected[1], takes.parameters) if unexpected else ''} {known}"
    for parameter, value in bound.arguments.items():
        wanted = types.get(parameter, "object").split(" | ")
        if "object" not in wanted and type(value).__name__ not in wanted:
            return f"{name}(): {parameter} is {reprlib.repr(value)}, of type {type(value).__name__}, but takes {' or '.join(wanted)}"
    return None
