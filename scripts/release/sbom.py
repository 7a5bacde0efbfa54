#!/usr/bin/env python3
"""What the files of a release contain of other projects, on a machine with Debian's packages.

    sbom.py licences FOLDER TARGET            copies the licence of each shared library in FOLDER into TARGET
    sbom.py write OUTPUT BUILD_DIR FILE...    writes CycloneDX JSON of the wheels and tarballs: the shared libraries inside,
                                              and the projects whose headers BUILD_DIR compiled; needs cyclonedx-python-lib

A project is named as Debian's source package, with its version. A project that is no package of Debian has PyPI's version.
"""
import dataclasses
import importlib.metadata
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

# Debian's names of licences, where SPDX has another.
SPDX = {"Expat": "MIT", "BSD-3-clause": "BSD-3-Clause", "LGPL-2.1+": "LGPL-2.1-or-later"}
# What a person reads where the copyright file is not for machines, or names no licence.
READ = {"hwloc": "BSD-3-Clause", "mpich": "mpich2", "openmpi": "BSD-3-Clause-Open-MPI", "ucx": "BSD-3-Clause"}
# The C and C++ libraries belong to the system, also those parts that their headers compile into a program.
OF_THE_SYSTEM = ("gcc-", "glibc", "linux")
# PyPI's packages whose headers a wheel's modules compile, with their licences.
HEADERS_OF = {"tutti": ("nanobind", "BSD-3-Clause"), "tutti_torch": ("pybind11", "BSD-3-Clause")}
LIBRARY = re.compile(r"\.so(\.\d+)*$")


@dataclasses.dataclass(frozen=True)
class Project:
    """A source package of Debian, by one of its packages that is installed here."""

    name: str
    version: str
    copyright: pathlib.Path

    def licence(self) -> str:
        if self.name in READ:
            return READ[self.name]
        text = self.copyright.read_text(encoding="utf-8")
        stanza = re.search(r"^Files: \*\n(?:.+\n)*?License: *(.+)", text, re.MULTILINE)
        if stanza is None:
            raise SystemExit(f"{self.copyright} does not say the licence in Debian's form: read it, and add {self.name} to READ")
        return SPDX.get(stanza[1], stanza[1])


def output_of(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def projects_of(packages: set[str]) -> list[Project]:
    rows = output_of("dpkg-query", "--show", "--showformat=${Package} ${source:Package} ${source:Version}\n", *packages)
    found = {}
    for package, source, version in map(str.split, rows.splitlines()):
        if not source.startswith(OF_THE_SYSTEM):
            found[source] = Project(source, version, pathlib.Path(f"/usr/share/doc/{package}/copyright"))
    return sorted(found.values(), key=lambda project: project.name)


def packages_of(patterns: list[str]) -> set[str]:
    """The packages that have these files."""
    done = subprocess.run(["dpkg-query", "--search", *patterns], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit("the release contains a file of no Debian package, so its licence is unknown: "
                         f"{done.stderr.strip()}")
    rows = done.stdout
    return {row.split(":")[0] for row in rows.splitlines() if not row.startswith("diversion ")}


def original(name: str) -> str:
    """The name of a library before auditwheel added a part of its hash: libfmt-4f700944.so.9.1.0 was libfmt.so.9.1.0."""
    return re.sub(r"-[0-9a-f]{8}(?=\.so)", "", name)


def packages_of_libraries(names: list[str]) -> set[str]:
    # Tutti's own are no package's.
    others = [f"*/{original(name)}" for name in names if LIBRARY.search(name) and not name.startswith(("libtutti", "libnccl"))]
    return packages_of(others) if others else set()


def inside(file: pathlib.Path) -> list[str]:
    """The names of the other projects' libraries in a wheel or tarball."""
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as wheel:
            names = [name for name in wheel.namelist() if ".libs/" in name]
    else:
        with tarfile.open(file) as tarball:
            names = [name for name in tarball.getnames() if "/lib/tutti/private/" in name]
    return [pathlib.Path(name).name for name in names]


def compiled(build: pathlib.Path) -> set[str]:
    """The packages whose headers the build's products include."""
    ninja = ("ninja", "-C", str(build), "-t")
    inputs = output_of(*ninja, "inputs", "tutti_release").split("\n")
    objects = [name for name in inputs if name.endswith(".o")]
    headers = set(re.findall(r"^ +(/usr/(?:include|lib)/.+)$", output_of(*ninja, "deps", *objects), re.MULTILINE))
    if not headers:
        raise SystemExit(f"{build} does not say which headers it included: it was not built by ninja")
    return packages_of(sorted(headers))


def version_of(build: pathlib.Path) -> str:
    cache = (build / "CMakeCache.txt").read_text(encoding="utf-8")
    found = re.search(r"^CMAKE_PROJECT_VERSION:STATIC=(.+)$", cache, re.MULTILINE)
    assert found is not None, build
    return found[1]


def copy_licences(folder: pathlib.Path, target: pathlib.Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for project in projects_of(packages_of_libraries([path.name for path in folder.iterdir()])):
        shutil.copyfile(project.copyright, target / project.name)


def write(output: pathlib.Path, build: pathlib.Path, files: list[pathlib.Path]) -> None:
    from cyclonedx.contrib.license.factories import LicenseFactory
    from cyclonedx.model import Property
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output import OutputFormat, SchemaVersion, make_outputter
    from cyclonedx.validation.json import JsonStrictValidator
    from packageurl import PackageURL

    where: dict[Project, list[str]] = {}
    for project in projects_of(compiled(build)):
        where.setdefault(project, []).append("compiled in, by its headers")
    for file in files:
        for project in projects_of(packages_of_libraries(inside(file))):
            # The package differs between a library and its headers, the project does not.
            same = next((known for known in where if known.name == project.name), project)
            where.setdefault(same, []).append(f"a library in {file.name}")
    licences = LicenseFactory()

    def component(name: str, version: str | None, purl: PackageURL, licence: str, places: list[str]) -> Component:
        return Component(type=ComponentType.LIBRARY, name=name, version=version, purl=purl, bom_ref=str(purl),
                         licenses=[licences.make_from_string(licence)],
                         properties=[Property(name="tutti:where", value=place) for place in places])

    components = [component(project.name, project.version, PackageURL("deb", "debian", project.name, project.version,
                                                                       {"arch": "source"}), project.licence(), places)
                  for project, places in where.items()]
    for distribution, (name, licence) in HEADERS_OF.items():
        places = [f"compiled into {file.name}" for file in files
                  if file.name.startswith(f"{distribution}-") and file.suffix == ".whl"]
        # Each PyTorch has a copy of pybind11 of its own.
        version = None if name == "pybind11" else importlib.metadata.version(name)
        if places:
            components.append(component(name, version, PackageURL("pypi", None, name, version), licence, places))
    bom = Bom(components=components)
    bom.metadata.component = Component(type=ComponentType.LIBRARY, name="tutti", version=version_of(build),
                                       bom_ref="tutti", licenses=[licences.make_from_string("Apache-2.0")])
    bom.register_dependency(bom.metadata.component, components)
    schema = SchemaVersion.V1_6
    text = make_outputter(bom, OutputFormat.JSON, schema).output_as_string(indent=1)
    wrong = JsonStrictValidator(schema).validate_str(text)
    if wrong:
        raise SystemExit(f"{output} would be no CycloneDX: {wrong}")
    output.write_text(text + "\n", encoding="utf-8")
    names = ", ".join(" ".join(filter(None, (one.name, one.version))) for one in components)
    print(f"{output}: {len(components)} projects: {names}")


def main() -> int:
    match sys.argv[1:]:
        case ["licences", folder, target]:
            copy_licences(pathlib.Path(folder), pathlib.Path(target))
        case ["write", output, build, *files] if files:
            write(pathlib.Path(output), pathlib.Path(build), list(map(pathlib.Path, files)))
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
