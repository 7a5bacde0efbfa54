#!/usr/bin/env python3
"""Runs every fenced block of the README and of the pages for beginners, in order, page by page.

    run.py SOURCE_DIR BUILD_DIR                     blocks of C and of the shell
    run.py SOURCE_DIR BUILD_DIR --wheels FOLDER     blocks that need the Python package, with the python3 that runs this

A page's blocks share a folder, which is new. How a block runs is said by a comment of the page right before it; what a
comment may say is in blocks.py. A block without one runs by its language: C and Python on two ranks, the rest in bash.
A block that cannot run says why; if it is one of the shell, its scripts and options must exist. The test prints what ran
and what did not, with the reason, and fails if a block fails.
"""
import argparse
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import blocks
import commands

PAGES = ("README.md", "docs/tutorial_c.md", "docs/tutorial_python.md", "docs/python.md", "docs/coming_from.md",
         "docs/commands.md", "docs/installing.md", "docs/running.md", "docs/troubleshooting.md", "docs/why_all_reduce.md",
         "docs/selection.md", "docs/simulator.md", "docs/performance.md", "docs/nccl.md", "docs/mpi.md", "docs/pytorch.md",
         "docs/ray.md", "docs/vllm.md", "RELEASING.md")
HERE = pathlib.Path(__file__).resolve().parent
LIMIT_S = 120


class Failure(Exception):
    """A block does not do what its page says."""


def plain(text: str) -> str:
    """A text without what differs from run to run: numbers, and this host's name."""
    text = re.sub(r"host [^,)\s]+", "host HOST", text.replace(socket.gethostname(), "HOST"))
    return re.sub(r"\d+", "N", text)


class Page:
    """A page's folder, and what its blocks have left there."""

    def __init__(self, name: str, source: pathlib.Path, build: pathlib.Path, wheels: pathlib.Path | None,
                 folder: pathlib.Path) -> None:
        self.name, self.source, self.build, self.folder = name, source, build, folder
        self.output = ""
        self.written: str | None = None
        shutil.copy(build / "examples/all_reduce", folder / "program")
        if wheels is not None:
            (folder / "build/wheels").mkdir(parents=True)
            (folder / "build/wheels/wheels").symlink_to(wheels)
        (folder / "home").mkdir()
        for data in ("topology", "algorithms"):  # files that pages name
            (folder / data).symlink_to(source / data)
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("TUTTI_", "SLURM_", "OMPI_", "PMI_"))
                            and name not in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PYTHONPATH")}
        paths = [str(build / "tools"), str(build / "bench"), str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]
        self.environment |= {"PATH": ":".join(paths), "HOME": str(folder / "home"), "SOURCE": str(source), "BUILD": str(build),
                             "LD_LIBRARY_PATH": str(build), "PYTHONDONTWRITEBYTECODE": "1"}
        self.environment["PKG_CONFIG_PATH"] = str(self.uninstalled())

    def uninstalled(self) -> pathlib.Path:
        """A folder with a tutti.pc for the build tree."""
        made = self.folder / "pkgconfig"
        made.mkdir()
        (made / "tutti.pc").write_text("Name: tutti\nDescription: of a build tree\nVersion: 0\n"
                                       f"Cflags: -I{self.source}/include\n"
                                       f"Libs: -L{self.build} -ltutti -Wl,-rpath,{self.build}\n", encoding="utf-8")
        return made

    def execute(self, command: list[str], block: blocks.Block) -> None:
        """Runs a command; its status and its output must be what the page says."""
        environment = self.environment | dict(block.all("with", split="="))
        try:
            done = subprocess.run(command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, timeout=LIMIT_S,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        except subprocess.TimeoutExpired as expired:
            raise Failure(f"did not end within {LIMIT_S} s: {expired.output}") from None
        self.output = done.stdout
        if (done.returncode != 0) != block.has("fails"):
            raise Failure(f"ended with status {done.returncode}:\n{done.stdout}")
        for wanted in block.all("prints"):
            if plain(wanted) not in plain(self.output):
                raise Failure(f'did not print "{wanted}" but\n{self.output}')

    def shell(self, text: str, block: blocks.Block) -> None:
        before = "\n".join(block.all("before"))
        self.execute(["bash", "-euo", "pipefail", "-c", f"{before}\n{text}"], block)

    def on_ranks(self, program: str, block: blocks.Block) -> None:
        self.execute(["tutti", "run", "-n", block.one("ranks", "2"), program], block)

    def compile(self, source: str, program: str) -> None:
        flags = ["-g", "-std=gnu99", "-Wall", "-Wextra", "-Werror", "-Wno-unused"]
        command = f"cc {' '.join(flags)} {source} $(pkg-config --cflags --libs tutti) -o {program}"
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, env=self.environment, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise Failure(f"{source} cannot be compiled:\n{done.stdout}")

    def text_of(self, block: blocks.Block) -> str:
        """The block, put where the page says it belongs."""
        text = blocks.from_column(block, int(block.one("from column", "0")))
        if block.has("replaces"):
            if self.written is None:
                raise Failure("replaces a line of no file")
            whole = (self.folder / self.written).read_text(encoding="utf-8")
            lines = [line for line in whole.split("\n") if block.one("replaces") in line]
            if len(lines) != 1:
                raise Failure(f'"{block.one("replaces")}" is in {len(lines)} lines of {self.written}')
            return whole.replace(lines[0], text.rstrip("\n"))
        return blocks.framed(block, text)

    def run(self, block: blocks.Block) -> None:
        text = self.text_of(block)
        if block.language == "text":  # what the block before has printed
            for line in (line for line in text.split("\n") if line.strip() not in ("", "...")):
                if plain(line.strip()) not in plain(self.output):
                    raise Failure(f"this line was not printed: {line}\nbut\n{self.output}")
            return
        kinds = {"c": "c", "cpp": "c", "python": "py", "cmake": "cmake", "dockerfile": "Dockerfile"}
        if block.language not in kinds:
            self.shell(text, block)
            return
        suffix = kinds[block.language]
        name = block.one("file", f"block.{suffix}")
        if block.has("replaces"):  # messages name the file
            name = f"replaced/{self.written}"
            (self.folder / "replaced").mkdir(exist_ok=True)
        (self.folder / name).write_text(text, encoding="utf-8")
        if block.has("file"):
            self.written = name
        if suffix == "c":
            self.compile(name, "./block")
        if not block.has("only written"):
            self.on_ranks("./block" if suffix == "c" else name, block)


def needs_package(block: blocks.Block, before: blocks.Block | None) -> bool:
    if block.language == "text" and before is not None:  # shows what the block before prints
        block = before
    return block.language == "python" or block.has("python")


def why_not(block: blocks.Block, before: str) -> str:
    """Why a block is not run, or nothing. before: why the one before it was not."""
    if block.language == "text" and before:
        return "it shows what the block before prints"
    if block.has("needs") and shutil.which(block.one("needs")) is None:
        return f"this machine has no {block.one('needs')}"
    return block.one("not run")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--wheels", type=pathlib.Path)
    arguments = parser.parse_args()
    source, build = arguments.source.resolve(), arguments.build.resolve()
    wheels = arguments.wheels.resolve() if arguments.wheels else None
    ran = failed = elsewhere = 0
    for name in PAGES:
        with tempfile.TemporaryDirectory() as folder:
            page = Page(name, source, build, wheels, pathlib.Path(folder))
            before: blocks.Block | None = None
            reason = ""
            for block in blocks.of((source / name).read_text(encoding="utf-8")):
                place = f"{name}:{block.line}"
                try:
                    reason = why_not(block, reason)
                    if reason:
                        if block.language in ("", "sh", "bash"):
                            commands.check(block.text, source, build)
                        print(f"not run  {place}: {reason}")
                    elif needs_package(block, before) != (wheels is not None):
                        elsewhere += 1
                    else:
                        began = time.monotonic()
                        page.run(block)
                        ran += 1
                        print(f"ran      {place}, {time.monotonic() - began:.1f} s", flush=True)
                except (Failure, blocks.Malformed, commands.Unknown) as failure:
                    failed += 1
                    print(f"FAILED   {place}: {failure}")
                before = block
    other = "that need no Python package" if wheels else "that need the Python package"
    print(f"{ran} blocks ran, {failed} failed; {elsewhere} blocks {other} run in another test")
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
