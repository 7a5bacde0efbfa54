#!/usr/bin/env python3
"""Draws the pictures of docs/parallel.md that show what each split of a model divides, and what is sent for it.

    scripts/docs/draw_parallel.py docs/pictures
"""
import pathlib
import sys

sys.dont_write_bytecode = True
from picture import GREY, INK, LIGHT, RANK_COLOURS, SENT, Picture, arrow

WIDTH = 760
SIDE = 64  # of a whole tensor, in pixels
PARTS = {"whole": (0, 0, 1, 1), "columns": (0, 0, .5, 1), "rows": (0, 0, 1, .5)}


def tensor(picture, x, y, part, rank, colour):
    """A tensor's outline, and the part of it that the rank has: whole, or its half of the columns or rows."""
    left, top, wide, high = (each * SIDE for each in PARTS[part])
    left, top = left + (wide * rank if part == "columns" else 0), top + (high * rank if part == "rows" else 0)
    picture.parts.append(f'<rect x="{x + left:.1f}" y="{y + top:.1f}" width="{wide:.1f}" height="{high:.1f}" fill="{colour}"/>'
                         f'<rect x="{x}" y="{y}" width="{SIDE}" height="{SIDE}" fill="none" stroke="{GREY}"/>')


def exchange(picture, x, tops, name):
    """Both ranks' arrows of a collective."""
    middles = [top + SIDE / 2 for top in tops]
    for start in middles:
        for end in middles:
            arrow(picture, (x, start), (x + 44, end), SENT, 1.6, 0)
    picture.text(x + 22, 26, name, "middle", "about")


def layer(path, sequence):
    """Two ranks share a multilayer perceptron: the first weight by columns, the second by rows."""
    picture = Picture(WIDTH, 218)
    split = "rows" if sequence else "whole"
    columns = [("tokens", split, GREY)]
    if sequence:
        columns += [("all_gather", None, None), ("all tokens", "whole", GREY)]
    columns += [("column-parallel", "columns", None), ("hidden", "columns", GREY), ("row-parallel", "rows", None),
                ("reduce_scatter" if sequence else "all_reduce", None, None), ("sums", split, GREY)]
    tops = [40, 40 + SIDE + 14]
    step = (WIDTH - 60 - SIDE) / (len(columns) - 1)
    for rank, top in enumerate(tops):
        picture.text(12, top + SIDE / 2 + 4.5, rank, "start", "about")
    for place, (name, part, colour) in enumerate(columns):
        x = 40 + place * step
        if part is None:
            exchange(picture, x + SIDE / 2 - 22, tops, name)
            continue
        weight = colour is None
        picture.text(x + SIDE / 2, tops[-1] + SIDE + 22 if weight else 26, name, "middle", "title" if weight else "")
        for rank, top in enumerate(tops):
            tensor(picture, x, top, part, rank, colour or RANK_COLOURS[rank])
            if place + 1 < len(columns) and columns[place + 1][1] is not None:
                arrow(picture, (x + SIDE + 4, top + SIDE / 2), (x + step - 4, top + SIDE / 2), GREY, 1.6, 0)
    picture.write(path)


def experts(path):
    """Tokens of four ranks go to the ranks of their experts, and come back."""
    ranks, tokens, cell, high = len(RANK_COLOURS), 4, 20, 58
    chosen = [[(3 * rank + 2 * token + token // 2) % ranks for token in range(tokens)] for rank in range(ranks)]
    picture = Picture(WIDTH, 70 + ranks * high)
    here, there, back = 40, 330, 640

    def token_at(x, y, rank, expert):
        picture.parts.append(f'<rect x="{x}" y="{y}" width="{cell - 2}" height="{cell - 2}" fill="{RANK_COLOURS[rank]}"/>')
        picture.text(x + cell / 2 - 1, y + 13.5, expert, "middle", "", "font-size:11px;fill:#ffffff")

    for x, words in ((here, "tokens, and their expert"), (there - 4, "each expert's tokens"), (back, "tokens again")):
        picture.text(x, 22, words, kind="title")
    for rank in range(ranks):
        y = 46 + rank * high
        picture.text(12, y + 14, rank, "start", "about")
        for token, expert in enumerate(chosen[rank]):
            token_at(here + cell * token, y, rank, expert)
            token_at(back + cell * token, y, rank, expert)
        for expert in sorted(set(chosen[rank])):
            arrow(picture, (here + 86, y + 9), (there - 8, 55 + expert * high), SENT, 1.2, 0)
            arrow(picture, (there + 136, 55 + expert * high), (back - 6, y + 9), SENT, 1.2, 0)
        picture.parts.append(f'<rect x="{there - 4}" y="{y - 10}" width="136" height="38" rx="6" fill="{LIGHT}" stroke="{GREY}"/>')
        arrived = [owner for owner in range(ranks) for expert in chosen[owner] if expert == rank]
        for place, owner in enumerate(arrived):
            token_at(there + 40 + cell * place, y, owner, rank)
        picture.text(there + 4, y + 14, f"E{rank}", "start", "title", f"fill:{INK}")
    for x in ((here + there + 80) / 2, (there + back + 130) / 2):
        picture.text(x, 56 + ranks * high, "all_to_all", "middle", "about")
    picture.write(path)


def main(folder):
    layer(folder / "parallel_tensor.svg", sequence=False)
    layer(folder / "parallel_sequence.svg", sequence=True)
    experts(folder / "parallel_experts.svg")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
