"""Checks a block of the shell that is not run: the files and options that it names exist."""
import pathlib
import re
import shlex
import subprocess


class Unknown(Exception):
    """The block names a script, a command or an option that is not there."""


def _help(command: list[str]) -> str:
    done = subprocess.run([*command, "--help"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, check=False)
    return done.stdout


def _check_options(words: list[str], known: str, what: str) -> None:
    for word in words:
        option = word.split("=")[0]
        if option.startswith("-") and not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", known):
            raise Unknown(f"{what} has no option {option}")


def check(text: str, source: pathlib.Path, build: pathlib.Path) -> None:
    """Raises Unknown if a line names a script of this tree, a preset or an option of Tutti's programs that does not exist."""
    presets = (source / "CMakePresets.json").read_text(encoding="utf-8")
    for line in text.replace("\\\n", " ").split("\n"):
        words = shlex.split(line, comments=True)
        while words and (re.match(r"\w+=", words[0]) or words[0] == "sudo"):
            words.pop(0)
        if not words:
            continue
        command, rest = words[0].removeprefix("./"), words[1:]
        if re.match(r"(scripts|interop|examples)/", command):
            script = source / command
            if not script.is_file():
                raise Unknown(f"there is no {command}")
            known = script.read_text(encoding="utf-8")
            if command == "scripts/bench.sh":  # which hands them on
                known += _help([str(build / "bench/tutti-bench")])
            _check_options(rest, known, command)
        elif command == "tutti":
            plain = [word for word in rest if not word.startswith("-")]
            _check_options(rest, _help([str(build / "tools/tutti"), plain[0]]), f"tutti {plain[0]}")
        elif command == "tutti-bench":
            _check_options(rest, _help([str(build / "bench/tutti-bench")]), command)
        elif command == "cmake" and "--preset" in rest:
            preset = rest[rest.index("--preset") + 1]
            if f'"{preset}"' not in presets:
                raise Unknown(f"CMakePresets.json has no {preset}")
        for word in rest:  # files of this tree
            if re.match(r"(\./)?(interop|packaging|scripts|docs|examples)/", word) and "*" not in word:
                if not (source / word.removesuffix("/")).exists():
                    raise Unknown(f"there is no {word}")
