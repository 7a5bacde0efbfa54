#!/usr/bin/env python3
"""Draws the modules of a build and their dependencies, for docs/architecture.md.

    scripts/docs/draw_modules.py BUILD_DIR/modules.tsv >docs/pictures/modules.svg

Each module has a row, the highest module first, and a column, which meets its row on the diagonal. A dot in a module's
row marks, by its column, a module that this module names in its CMakeLists.txt. All dots are above the diagonal,
because no module uses a module above it.
"""
import sys
from xml.sax.saxutils import escape

ROW, COLUMN = 18, 7  # pixels; so narrow that all is legible at the width of a page
NAME, ABOUT, MATRIX = 8, 170, 522  # x positions of the columns
STYLE = ("text{font:11px 'DejaVu Sans',Verdana,sans-serif;fill:#1d1f24}.about{fill:#5b6270}.room{font-weight:bold}"
         "@media(prefers-color-scheme:dark){text{fill:#e6e8ec}.about{fill:#a3aab8}}")
BAND = "#8892a6"  # behind every second top-level folder, faint enough for both colour schemes
OWN, USE = "#8892a6", "#d9480f"


def read(path):
    """[(module, about, [used module])] in the order of declaration, lowest module first."""
    with open(path, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file if line.strip()]
    return [(module, about, uses.split()) for module, about, uses in rows]


def draw(modules):
    modules = modules[::-1]
    row_of = {module: row for row, (module, _, _) in enumerate(modules)}
    width, height = MATRIX + COLUMN * len(modules) + 8, ROW * len(modules) + 8
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
           f"<style>{STYLE}</style>"]

    rooms = []
    for module, _, _ in modules:
        room = module.split("/")[0]
        if room not in rooms:
            rooms.append(room)

    def centre(row):
        return 4 + ROW * row + ROW / 2

    for row, (module, about, uses) in enumerate(modules):
        room, _, rest = module.partition("/")
        y = centre(row)
        if rooms.index(room) % 2 == 0:
            out.append(f'<rect x="0" y="{y - ROW / 2}" width="{width}" height="{ROW}" fill="{BAND}" opacity=".13"/>')
        name = f'<tspan class="room">{escape(room)}</tspan>' + (f"/{escape(rest)}" if rest else "")
        out.append(f'<text x="{NAME}" y="{y + 4}">{name}</text>')
        out.append(f'<text class="about" x="{ABOUT}" y="{y + 4}">{escape(about)}</text>')
        own = MATRIX + COLUMN * row + COLUMN / 2
        out.append(f'<rect x="{own - 3}" y="{y - 6}" width="6" height="12" rx="1" fill="{OWN}"/>')
        for used in uses:
            if row_of[used] < row:
                sys.exit(f"{module} uses {used}, which is above it")
            x = MATRIX + COLUMN * row_of[used] + COLUMN / 2
            out.append(f'<path d="M{x} {y}V{centre(row_of[used]) - 6}" stroke="{USE}" stroke-width=".6" opacity=".35"/>')
            out.append(f'<circle cx="{x}" cy="{y}" r="3" fill="{USE}"><title>{escape(module)} uses {escape(used)}</title>'
                       "</circle>")
    out.append("</svg>")
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.stdout.write(draw(read(sys.argv[1])))
