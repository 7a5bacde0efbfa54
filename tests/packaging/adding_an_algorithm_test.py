#!/usr/bin/env python3
"""Does what docs/adding-an-algorithm.md says, in a copy of the tree that nobody else sees.

    adding_an_algorithm_test.py SOURCE_DIR             the page's file and its patch: CMake asks for the patch, which fits,
                                                       and the compiler takes both
    adding_an_algorithm_test.py SOURCE_DIR --whole     all blocks: builds (minutes), shows, proves, prices and runs

The copy is an overlay over SOURCE_DIR in a mount namespace of this process, so that build/release inside it is used and
stays as it is. Status 77: this system offers no such namespace.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "doc_blocks"))
import blocks  # noqa: E402

PAGE = "docs/adding-an-algorithm.md"
PICTURE = "docs/pictures/adding_an_algorithm.svg"
COMPILED = ("algorithms/builders/bidirectional_ring.cc", "algorithms/builders/records.cc")


def enter_copy(source: str, scratch: str, arguments: list[str]) -> int:
    """Runs this script again, where SOURCE_DIR is an overlay."""
    for name in ("upper", "work"):
        os.mkdir(f"{scratch}/{name}")
    mount = f'mount -t overlay overlay -o "lowerdir={source},upperdir={scratch}/upper,workdir={scratch}/work,userxattr" "{source}"'
    test = ["unshare", "--user", "--map-root-user", "--mount", "bash", "-c"]
    if subprocess.run([*test, mount], check=False, capture_output=True).returncode != 0:
        print("this system has no overlays in namespaces of one's own")
        return 77
    return subprocess.run([*test, f'{mount} && cd "{source}" && exec "$@"', "-", sys.executable, "-B", __file__, *arguments,
                           "--inside"], check=False).returncode


def run(command: list[str], text: str | None = None) -> str:
    done = subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with status {done.returncode}:\n{done.stdout}")
    return done.stdout


def configure_with(orphan: str) -> None:
    """CMake names a file that no CMakeLists.txt names, before anything is compiled."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["cmake", "-S", ".", "-B", folder, "-DTUTTI_BENCH=OFF", "-DTUTTI_TESTS=OFF"], check=False,
                              capture_output=True, text=True)
    told = " ".join(done.stderr.split())
    if done.returncode == 0 or f"{orphan} belongs to no target" not in told:
        sys.exit(f"CMake does not stop at {orphan}, which belongs to no target:\n{done.stderr}")
    print(f"CMake stops at {orphan} as long as it belongs to no target")


def follow(whole: bool) -> None:
    """Does what each block of the page says."""
    printed, picture = "", pathlib.Path(PICTURE).read_bytes()
    for block in blocks.of(pathlib.Path(PAGE).read_text(encoding="utf-8")):
        if block.has("file"):
            pathlib.Path(block.one("file")).write_text(block.text, encoding="utf-8")
            configure_with(block.one("file"))
        elif block.language == "diff":
            run(["git", "apply", "-"], block.text)
        elif whole and block.language == "sh" and not block.has("not run"):
            printed = run(["bash", "-euo", "pipefail", "-c", block.text])
            print(f"line {block.line}:\n{printed}", flush=True)
        elif whole and block.language == "text":
            missing = [line for line in block.text.split("\n") if line.strip() not in printed]
            if missing:
                sys.exit(f"{PAGE}, line {block.line}: these lines were not printed: {missing}")
    if pathlib.Path(PICTURE).read_bytes() != picture:
        sys.exit(f"{PICTURE} is not what the page's command draws")
    for file in [] if whole else COMPILED:
        run(["c++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I.", "-Iinclude", file])
        print(f"{file} compiles")


def main() -> int:
    source = os.path.realpath(sys.argv[1])
    whole = "--whole" in sys.argv
    if "--inside" in sys.argv:
        follow(whole)
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        status = enter_copy(source, scratch, sys.argv[1:])
        for left in pathlib.Path(scratch).glob("work/*"):  # the system's, without permissions
            left.chmod(0o700)
        return status


if __name__ == "__main__":
    sys.exit(main())
