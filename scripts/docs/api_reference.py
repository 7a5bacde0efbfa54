#!/usr/bin/env python3
"""Writes the reference of the C API as Markdown, from the comments of the public header.

    api_reference.py [HEADER]      default: include/tutti/tutti.h

Sections are the header's own lines "/* ---- name -- */". A declaration comes with the comment above it; declarations
without a comment of their own belong to the one before.
"""
import pathlib
import re
import sys

SECTION = re.compile(r"/\*\s*-{10,}\s*(?P<name>[\w -]+?)\s*--\s*(?P<rest>.*)", re.DOTALL)
FUNCTION = re.compile(r"TUTTI_API\b.*?\b(tutti\w+)\(")
TYPE = re.compile(r"}\s*(tutti\w+);\s*$", re.MULTILINE)


def text_of(comment: str) -> str:
    """The words of a comment, without its stars."""
    lines = comment.strip().removeprefix("/*").removesuffix("*/").split("\n")
    return "\n".join(re.sub(r"^\s*\*? ?", "", line).rstrip() for line in lines).strip()


def pieces(source: str):
    """The header's comments at the beginning of a line, and the code between them, in order."""
    place = 0
    for comment in re.finditer(r"^/\*.*?\*/", source, re.MULTILINE | re.DOTALL):
        yield "code", source[place:comment.start()]
        yield "comment", comment.group()
        place = comment.end()
    yield "code", source[place:]


def without_guards(code: str) -> str:
    """The declarations, without what only compilers read."""
    compilers = r"#(if|ifdef|ifndef|else|endif|include)|#define TUTTI_(API|ENUM|TUTTI_H_)|extern \"C\"|}$"
    kept = [line for line in code.split("\n") if not re.match(compilers, line)]
    return "\n".join(kept).strip()


def markdown(source: str) -> str:
    parts = list(pieces(source))
    out = ["# The C API", "", "The declarations of `tutti/tutti.h`, with their comments.", ""]
    comment, opened = "", False
    for kind, piece in parts:
        if kind == "comment":
            section = SECTION.match(piece)
            if section is None:
                comment = text_of(piece)
                if not opened:  # the header's own introduction
                    out += ["```text", comment, "```", ""]
                    comment, opened = "", True
                continue
            out += ["## " + section["name"].strip().capitalize(), ""]
            comment = text_of(section["rest"])
            if comment:
                out += [comment, ""]
            comment = ""
            continue
        code = without_guards(piece)
        if not code:
            continue
        names = list(dict.fromkeys(FUNCTION.findall(code.replace("\n", " ")) + TYPE.findall(code)))
        if names:
            out += ["### " + ", ".join(names), ""]
        if comment:
            out += [comment, ""]
        out += ["```c", code.replace("TUTTI_API ", ""), "```", ""]
        comment = ""
    return "\n".join(out)


def main() -> int:
    header = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "include/tutti/tutti.h")
    print(markdown(header.read_text(encoding="utf-8")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
