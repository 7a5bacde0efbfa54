#!/usr/bin/env python3
"""Draws the walk of a call through the modules, for docs/architecture.md.

    scripts/docs/draw_walk.py >docs/pictures/walk.svg        from the project's root

Reads docs/walk.tsv: for each function its depth in the call tree, its file, and what it does. Fails if a function is not
in its file, so the picture names nothing that has moved.
"""
import csv
import os
import re
import sys
from xml.sax.saxutils import escape

WALK = "docs/walk.tsv"
TITLES = {"first": "A call for the first time, and every call of a large message",
          "again": "A small message again: the same call, with the same or other buffers"}
ROW, INDENT, NAME, ABOUT, LANES, LANE = 20, 12, 12, 220, 650, 26  # pixels
HEAD = 150  # for the modules' names, which stand upright
STYLE = ("text{font:12px 'DejaVu Sans',Verdana,sans-serif;fill:#1d1f24}.about{fill:#5b6270}.title{font-weight:bold}"
         "@media(prefers-color-scheme:dark){text{fill:#e6e8ec}.about{fill:#a3aab8}}")
BAND, MARK = "#8892a6", "#d9480f"


def read():
    """[(path, depth, file, function, about)]"""
    with open(WALK, encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter="\t"))[1:]
    for _, _, path, function, _ in rows:
        with open(path, encoding="utf-8") as source:
            text = source.read()
        missing = [name for name in function.split("::") if not re.search(rf"\b{name}\b", text)]
        if missing:
            sys.exit(f"{WALK}: {path} has no {missing[0]}")
    return [(path, int(depth), file, function, about) for path, depth, file, function, about in rows]


def draw(rows):
    modules = []
    for _, _, file, _, _ in rows:
        module = os.path.dirname(file)
        if module not in modules:
            modules.append(module)
    lines = len(rows) + 2 * len(TITLES) - 1
    width, height = LANES + LANE * len(modules) + 12, HEAD + ROW * lines + 12
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
           f"<style>{STYLE}</style>"]
    for number, module in enumerate(modules):
        x = LANES + LANE * number + LANE / 2
        if number % 2 == 0:
            out.append(f'<rect x="{x - LANE / 2}" y="0" width="{LANE}" height="{height}" fill="{BAND}" opacity=".13"/>')
        out.append(f'<text transform="translate({x + 4},{HEAD - 8}) rotate(-90)">{escape(module)}</text>')
    y, drawn, last = HEAD, None, None
    for path, depth, file, function, about in rows:
        if path != drawn:
            y += ROW if drawn is None else 2 * ROW
            out.append(f'<text class="title" x="{NAME}" y="{y}">{escape(TITLES[path])}</text>')
            drawn, last = path, None
        y += ROW
        x = LANES + LANE * modules.index(os.path.dirname(file)) + LANE / 2
        if last is not None:
            out.append(f'<path d="M{last[0]} {last[1]}L{x} {y - 4}" stroke="{MARK}" stroke-width="1.2" opacity=".5"/>')
        last = (x, y - 4)
        out.append(f'<circle cx="{x}" cy="{y - 4}" r="4.5" fill="{MARK}"><title>{escape(file)}</title></circle>')
        out.append(f'<text x="{NAME + INDENT * depth}" y="{y}">{escape(function)}</text>')
        out.append(f'<text class="about" x="{ABOUT}" y="{y}">{escape(about)}</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    sys.stdout.write(draw(read()))
