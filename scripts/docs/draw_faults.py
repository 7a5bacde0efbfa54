#!/usr/bin/env python3
"""Draws docs/faults.md's picture: what the other ranks do when a rank is killed, from docs/notebook/faults/rank_dies.csv.

    scripts/docs/draw_faults.py docs/pictures

scripts/measure/rank_dies.c measures the times.
"""
import math
import pathlib
import sys

sys.dont_write_bytecode = True
from draw_performance import read
from picture import GREY, INK, RANK_COLOURS, SENT, Picture

LEFT, RIGHT, TOP, LANE = 96, 740, 66, 44  # pixels
BEFORE = 0.12  # of the width: the call that goes on when the rank dies
COLOURS = {"error": "#fdc98a", "shrunk": "#d1e5f0", "next call": "#b8e0b0"}
WORDS = {"error": "waits for rank {dead}", "shrunk": "tuttiCommShrink", "next call": "the next call, on the rest"}


def timeline(path):
    rows = read("faults/rank_dies")
    ranks = 1 + int(max(row["rank"] for row in rows))
    dead, = set(range(ranks)) - {int(row["rank"]) for row in rows}
    last = max(row["ms"] for row in rows)
    tick = 10 ** math.floor(math.log10(last))
    tick = tick / 4 if last / tick < 2 else tick / 2 if last / tick < 5 else tick
    start = LEFT + BEFORE * (RIGHT - LEFT)

    def at(ms):
        return start + ms / last * (RIGHT - start - 12)

    picture = Picture(760, TOP + ranks * LANE + 40)
    x = LEFT
    for event, colour in COLOURS.items():
        picture.parts.append(f'<rect x="{x}" y="12" width="14" height="14" fill="{colour}" stroke="{GREY}"/>')
        words = WORDS[event].format(dead=dead)
        picture.text(x + 20, 24, words)
        x += 44 + 8.2 * len(words)
    bottom = TOP + ranks * LANE
    for step in range(int(last / tick) + 1):
        picture.line(at(step * tick), TOP - 14, at(step * tick), bottom)
        picture.text(at(step * tick), bottom + 18, f"{step * tick:g}", "middle")
    picture.text((LEFT + RIGHT) / 2, bottom + 36, f"milliseconds after rank {dead} was killed", "middle", "about")
    for rank in range(ranks):
        y = TOP + rank * LANE
        picture.text(12, y + 17, f"rank {rank}", kind="title" if rank == dead else "")
        picture.parts.append(f'<rect x="{LEFT}" y="{y}" width="{start - LEFT:.1f}" height="24" fill="{RANK_COLOURS[0]}" '
                             f'fill-opacity=".35" stroke="{GREY}"/>')
        picture.text((LEFT + start) / 2, y + 17, "call", "middle")
        if rank == dead:
            picture.parts.append(f'<path d="M{start - 9:.1f} {y + 3}l18 18m0 -18l-18 18" stroke="{SENT}" stroke-width="4"/>')
        since = 0.0
        for event, colour in COLOURS.items():
            for row in (row for row in rows if (row["rank"], row["event"]) == (rank, event)):
                picture.parts.append(f'<rect x="{at(since):.1f}" y="{y}" width="{at(row["ms"]) - at(since):.1f}" height="24" '
                                     f'fill="{colour}" stroke="{GREY}"><title>until {row["ms"]:g} ms</title></rect>')
                if event == "error":
                    picture.text(at(row["ms"]) - 6, y + 17, f'error at {row["ms"]:.3g}', "end", "", f"fill:{INK}")
                since = row["ms"]
    picture.write(path)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    timeline(pathlib.Path(sys.argv[1]) / "faults_timeline.svg")
