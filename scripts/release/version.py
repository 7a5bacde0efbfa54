#!/usr/bin/env python3
"""The version of Tutti, in all the places that have it.

    version.py check               all places agree, and CHANGELOG.md begins with that version or a later, unreleased one
    version.py check --release     also: CHANGELOG.md begins with exactly that version, and a date (RELEASING.md)
    version.py set 1.2.3           writes it into all places but CHANGELOG.md
    version.py notes               prints the newest section of CHANGELOG.md, for those who have no source tree
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FULL, MINOR = r"\d+\.\d+\.\d+", r"\d+\.\d+"
# Each file with what is before the version there, as a regular expression, and whether the patch number is part of it.
PLACES = (
    ("CMakeLists.txt", r"^project\(tutti VERSION ", FULL),
    ("interop/python/pyproject.toml", r'^version = "', FULL),
    ("interop/python/tutti/__init__.py", r'^__version__ = "', FULL),
    ("interop/torch/setup.py", r'^    version="', FULL),
    ("interop/torch/python/tutti_torch/__init__.py", r'^__version__ = "', FULL),
    ("scripts/release/conda/recipe.yaml", r"^  version: (?=\d)", FULL),
    ("scripts/release/spack/packages/tutti/package.py", r'^    version\("', FULL),
    ("tests/packaging/consumer/CMakeLists.txt", r"^find_package\(tutti ", MINOR),
    ("docs/installing.md", r"^find_package\(tutti ", MINOR),
    ("docs/installing.md", r"tutti@", FULL),
    ("docs/nccl_environment.md", r"\(Tutti ", FULL),
    ("README.md", r"^Version ", MINOR),
)
# The header has the three numbers in three lines.
HEADER = "include/tutti/tutti.h"
NUMBERS = ("MAJOR", "MINOR", "PATCH")
# What the publisher's packages say, and a source tree does not know: a file, what it has if they do, and what that is.
PUBLISHER = (
    ("cmake/install.cmake", r"CPACK_PACKAGE_CONTACT (?!.*@localhost)", "the maintainers' address (CPACK_PACKAGE_CONTACT)"),
    ("CMakeLists.txt", r"HOMEPAGE_URL", "the home page (HOMEPAGE_URL of project())"),
    ("interop/python/pyproject.toml", r"^\[project\.urls\]", "the home page ([project.urls])"),
    ("interop/torch/setup.py", r"^    url=", "the home page (url=)"),
)


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def places() -> list[tuple[str, str]]:
    """Each place with the version that it has."""
    found = []
    for name, before, form in PLACES:
        versions = re.findall(f"(?:{before})({form})", read(name), re.MULTILINE)
        if len(versions) != 1:
            raise SystemExit(f"{name} has {len(versions)} versions after {before}, not one")
        found.append((name, versions[0]))
    numbers = [re.search(rf"^#define TUTTI_{number} (\d+)$", read(HEADER), re.MULTILINE) for number in NUMBERS]
    found.append((HEADER, ".".join(match[1] if match else "?" for match in numbers)))
    return found


def as_tuple(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))


def check(release: bool) -> int:
    all_places = places()
    version = all_places[0][1]
    wrong = [f"{name} says {said}, {all_places[0][0]} says {version}" for name, said in all_places
             if said != version and said != version.rpartition(".")[0]]
    newest = re.search(rf"^## ({FULL}) \((.*)\)$", read("CHANGELOG.md"), re.MULTILINE)
    if newest is None:
        wrong.append('CHANGELOG.md has no line "## 1.2.3 (unreleased)" or "## 1.2.3 (2030-12-31)"')
    else:
        unreleased = newest[2] == "unreleased"
        if as_tuple(newest[1]) < as_tuple(version) or (newest[1] != version and (release or not unreleased)):
            wrong.append(f"CHANGELOG.md begins with {newest[1]}, and the version is {version}")
        if not unreleased and not re.fullmatch(r"\d{4}-\d\d-\d\d", newest[2]):
            wrong.append(f'CHANGELOG.md: "{newest[2]}" is neither a date nor "unreleased"')
        if release and unreleased:
            wrong.append(f"CHANGELOG.md calls {newest[1]} unreleased")
    if release:
        wrong += [f"{name} does not say {what}" for name, pattern, what in PUBLISHER
                  if not re.search(pattern, read(name), re.MULTILINE)]
    print("\n".join(wrong) if wrong else f"{version}, in {len(all_places)} places")
    return 1 if wrong else 0


def write(version: str) -> int:
    for name, before, form in PLACES:
        said = version if form == FULL else version.rpartition(".")[0]
        text = re.sub(f"({before}){form}", rf"\g<1>{said}", read(name), flags=re.MULTILINE)
        (ROOT / name).write_text(text, encoding="utf-8")
    header = read(HEADER)
    for name, number in zip(NUMBERS, version.split("."), strict=True):
        header = re.sub(rf"^(#define TUTTI_{name}) \d+$", rf"\1 {number}", header, flags=re.MULTILINE)
    (ROOT / HEADER).write_text(header, encoding="utf-8")
    return check(release=False)


def notes() -> int:
    sections = re.split(r"^## ", read("CHANGELOG.md"), flags=re.MULTILINE)
    # Links lead into the source tree.
    print("# Tutti " + re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", sections[1]).rstrip())
    return 0


def main() -> int:
    match sys.argv[1:]:
        case ["check"]:
            return check(release=False)
        case ["check", "--release"]:
            return check(release=True)
        case ["notes"]:
            return notes()
        case ["set", version] if re.fullmatch(FULL, version):
            return write(version)
        case _:
            print(__doc__, file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
