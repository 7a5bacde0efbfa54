#!/usr/bin/env python3
"""The header of the standard's ABI says what the mpi_abi.h of an installed MPI says.
   header_test.py HEADER INSTALLED_HEADER"""
import re
import sys


def facts(path):
    """{name: text}: constants with their values, functions with the types of their parameters."""
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", file.read(), flags=re.DOTALL)
    found = {}
    for name, handle, value in re.findall(r"#define\s+(MPI_\w+)\s+\(?\(([\w*]+)\)\s*(\w+)\)", text):
        found[name] = handle, int(value, 0)
    for name, value in re.findall(r"\b(MPI_\w+)(?:\s*=\s*|\s+)(-?\d\w*)\s*(?:,|\n)", text):
        found[name] = int(value, 0)
    for name, parameters in re.findall(r"\b(PMPI_\w+|MPI_\w+_attr_function)\W*(?:int)?\(([^)]*)\);", text):
        found[name] = [type_of(parameter) for parameter in parameters.split(",")]
    return found


def type_of(parameter):
    """Of a parameter with or without a name; an array is a pointer."""
    words = re.findall(r"\w+|[*]|\[\]", parameter)
    words = ["*" if word == "[]" else word for word in words]
    is_type = lambda word: word in ("const", "*", "int", "char", "void") or word.startswith("MPI_")
    return [word for word in words if is_type(word)]


def main():
    ours, theirs = map(facts, sys.argv[1:])
    wrong = [f"{name}: {fact}, but installed is {theirs.get(name)}" for name, fact in ours.items()
             if theirs.get(name) != fact]
    print("\n".join(wrong) or f"{len(ours)} facts are the same")
    if wrong or len(ours) < 120:  # an expression above that finds nothing would find nothing wrong
        sys.exit(1)


main()
