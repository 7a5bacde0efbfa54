"""Reads the fenced blocks of a page, and the comments before them that say how they are tested.

    <!-- block: SAYING | SAYING ... -->      on the line before the block, or with an empty line between

not run: REASON     the block is not run, because
needs: COMMAND      it is not run where this command is missing
file: NAME          it is saved as this file; C is also compiled
only written        the file is not started by itself; a later block does
ranks: N            on so many ranks (2)
frame: FILE         it takes the place of the line "THE BLOCK" in this file of the folder frames
replaces: TEXT      it takes the place of the line with this text in the file that the page wrote last
from column: N      only what its lines have from this column on, counted from 0; shorter lines are left out
before: COMMANDS    for the shell: these first
with: NAME=VALUE    an environment variable
prints: TEXT        it prints this; numbers and the host's name may differ
fails               it ends with a status that is not 0
python              it needs the Python package, whatever its language

A block of the language `text` shows what the one before printed; each of its lines must be there ("..." is not one).
"""
import dataclasses
import pathlib
import re
from typing import Iterator

_SAYINGS = ("not run", "needs", "file", "ranks", "frame", "replaces", "from column", "before", "with", "prints")
_FRAMES = pathlib.Path(__file__).resolve().parent / "frames"
_FLAGS = ("only written", "fails", "python")


class Malformed(Exception):
    """A comment says something that is not in the list above."""


@dataclasses.dataclass
class Block:
    """A block: its language, the number of its first line, its text, and what the comment before it says."""

    language: str
    line: int
    text: str
    sayings: list[tuple[str, str]]

    def all(self, key: str, split: str = "") -> list:
        values = [value for name, value in self.sayings if name == key]
        return [tuple(value.split(split, 1)) for value in values] if split else values

    def has(self, key: str) -> bool:
        return any(name == key for name, _ in self.sayings)

    def one(self, key: str, default: str = "") -> str:
        return next(iter(self.all(key)), default)


def _sayings(comment: str) -> list[tuple[str, str]]:
    found = []
    for saying in comment.split(" | "):
        key, _, value = saying.strip().partition(": ")
        if key not in (_SAYINGS if value else _FLAGS):
            raise Malformed(f'a comment before a block cannot say "{saying.strip()}"')
        found.append((key, value))
    return found


def of(page: str) -> Iterator[Block]:
    """The blocks of a page, in order."""
    comment, opened, language, lines, begin = "", "", "", [], 0
    for number, line in enumerate(page.split("\n"), 1):
        fence = re.match(r"(`{3,})(\w*)\s*$", line.strip())
        if opened:
            if fence and fence[1] == opened and not fence[2]:
                yield Block(language, begin, "\n".join(lines) + "\n", _sayings(comment) if comment else [])
                opened, comment = "", ""
            else:
                lines.append(line)
        elif fence:
            opened, language, lines, begin = fence[1], fence[2], [], number + 1
        elif said := re.match(r"<!-- block: (.*) -->$", line):
            comment = said[1]
        elif line.strip():
            if comment:
                raise Malformed(f"line {number}: a comment for a block, and no block follows")
    if opened or comment:
        raise Malformed("the page ends within a block")


def from_column(block: Block, column: int) -> str:
    """What the block's lines have from this column on, which must be where a word begins."""
    if column == 0:
        return block.text
    kept = []
    for line in block.text.split("\n"):
        if len(line) > column:
            if line[column - 1] != " ":
                raise Malformed(f"column {column} is inside a word: {line}")
            kept.append(line[column:])
    return "\n".join(kept) + "\n"


def framed(block: Block, text: str) -> str:
    """The text in the frame that the block's comment names, or the text itself."""
    frame = block.one("frame")
    if not frame:
        return text
    whole = (_FRAMES / frame).read_text(encoding="utf-8")
    marker = re.search(r"^( *)(//|#) THE BLOCK$", whole, re.MULTILINE)
    assert marker, frame
    indented = "\n".join(marker[1] + line if line else line for line in text.rstrip("\n").split("\n"))
    return whole[:marker.start()] + indented + whole[marker.end():]
