#!/usr/bin/env python3
"""Draws the pictures of the README and of the tutorials.

    scripts/docs/draw_introduction.py TUTTI docs/pictures

What ranks hold and send comes from the schedules that `tutti show` prints, which are run here symbolically.
"""
import collections
import pathlib
import re
import sys
from xml.sax.saxutils import escape

sys.dont_write_bytecode = True
from picture import GREY, INK, LIGHT, RANK_COLOURS, SENT, Picture, arrow
from schedules import shown

RANKS = len(RANK_COLOURS)
CALLS = [("all_reduce", "ring"), ("reduce_scatter", "ring"), ("all_gather", "ring"), ("all_to_all", "direct"),
         ("broadcast", "binomial"), ("reduce", "binomial"), ("scatter", "direct"), ("gather", "direct")]
CODE = "font-family:'DejaVu Sans Mono',monospace"
CELL, GAP = 15, 2  # pixels


def schedules_of(tutti, algorithm, collective):
    """[rank][lane][step]: these schedules have one channel."""
    return [channel for channel, in shown(tutti, collective, algorithm, RANKS)]


def run(schedules):
    """What each rank's input and output hold: {(rank, block): contributions}, each a set of (rank, block)."""
    inputs, outputs, slots = {}, {}, collections.defaultdict(collections.deque)
    places = {(rank, lane): 0 for rank, lanes in enumerate(schedules) for lane in range(len(lanes))}
    moved = True
    while moved:
        moved = False
        for (rank, lane), place in places.items():
            while place < len(schedules[rank][lane]):
                reads, writes = schedules[rank][lane][place].split(" -> ")
                sources = [(int(peer), rank, by) for peer, by in re.findall(r"from\((\d+)(?:, (\d+))?\)", reads)]
                if not all(slots[source] for source in sources):
                    break
                own = {(rank, int(block)) for block in re.findall(r"in\[(\d+)\]", reads)}
                inputs |= {each: {each} for each in own}
                held = own.union(*(slots[source].popleft() for source in sources))
                outputs |= {(rank, int(block)): held for block in re.findall(r"out\[(\d+)\]", writes)}
                for peer, by in re.findall(r"to\((\d+)(?:, (\d+))?\)", writes):
                    slots[rank, int(peer), by].append(held)
                place += 1
                moved = True
            places[rank, lane] = place
    unfinished = [each for each, place in places.items() if place < len(schedules[each[0]][each[1]])]
    if unfinished:
        sys.exit(f"these lanes (rank, lane) wait for ever: {unfinished}")
    return inputs, outputs


def cell(picture, x, y, contributions, numbers=True):
    """A block: a stripe for each rank that has contributed; a copy has the number of the block that it copies."""
    ranks = sorted({rank for rank, _ in contributions})
    for place, rank in enumerate(ranks):
        wide = CELL / len(ranks)
        picture.parts.append(f'<rect x="{x + place * wide:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{CELL}" '
                             f'fill="{RANK_COLOURS[rank]}"/>')
    if numbers and len(contributions) == 1:
        (_, block), = contributions
        picture.text(x + CELL / 2, y + CELL - 4, block, "middle", "", "font-size:10px;fill:#ffffff")


def memory(picture, left, top, holds, numbers=True):
    """The blocks (rows) that the ranks (columns) hold."""
    for rank in range(RANKS):
        x = left + rank * (CELL + 5)
        picture.text(x + CELL / 2, top - 5, rank, "middle", "about")
        for block in range(RANKS):
            y = top + block * (CELL + GAP)
            picture.parts.append(f'<rect x="{x}" y="{y}" width="{CELL}" height="{CELL}" fill="{GREY}" fill-opacity=".15"/>')
            if (rank, block) in holds:
                cell(picture, x, y, holds[rank, block], numbers)
    return left + RANKS * (CELL + 5) - 5


def collective(picture, left, top, tutti, name, algorithm, numbers=True):
    inputs, outputs = run(schedules_of(tutti, algorithm, name))
    right = memory(picture, left, top, inputs, numbers)
    middle = top + 2 * (CELL + GAP)
    arrow(picture, (right + 5, middle), (right + 27, middle), SENT, 2, 0)
    return memory(picture, right + 32, top, outputs, numbers)


def collectives(tutti, path):
    """What ranks hold before and after each call."""
    across, wide, high = 3, 254, 122
    picture = Picture(760, 46 + 3 * high)
    for place, (name, algorithm) in enumerate(CALLS):
        left, top = 12 + wide * (place % across), 46 + high * (place // across)
        picture.text(left, top - 24, name, kind="title")
        collective(picture, left, top, tutti, name, algorithm)
    left, top = 12 + wide * (len(CALLS) % across), 40 + high * (len(CALLS) // across)
    for line, words in enumerate(("A column: a rank, before and after.", "A row: a block of its memory.",
                                  "A colour: a rank's data.", "Stripes: their sum.")):
        picture.text(left, top + 22 * line, words, kind="about")
    picture.write(path)


def drawn(picture, left, top, schedules):
    """Steps downwards, ranks as columns; the number is the block, an arrow is a slot on its way."""
    apart, down = 62, 25
    for rank in range(RANKS):
        picture.text(left + rank * apart, top - 16, f"rank {rank}", "middle", "about")
    for rank, (lane,) in enumerate(schedules):
        for place, step in enumerate(lane):
            x, y = left + rank * apart, top + place * down
            for peer in map(int, re.findall(r"to\((\d+)", step)):
                if peer > rank:
                    arrow(picture, (x, y), (left + peer * apart, y + down), SENT, 1.4, 11)
                else:  # round the end: it goes out at the right, and comes in at the left
                    arrow(picture, (x, y), (x + apart, y + down), SENT, 1.4, 11)
                    arrow(picture, (left - apart, y), (left, y + down), SENT, 1.4, 11)
    for rank, (lane,) in enumerate(schedules):
        for place, step in enumerate(lane):
            x, y = left + rank * apart, top + place * down
            adds, done = "from" in step and "in[" in step, "final" in step
            fill = "#b8e0b0" if done else "#fdc98a" if adds else LIGHT
            picture.parts.append(f'<circle cx="{x}" cy="{y}" r="10" fill="{fill}" stroke="{GREY}"/>')
            picture.text(x, y + 4.5, re.search(r"block (\d+)", step)[1], "middle", "", f"fill:{INK}")


def call(tutti, path):
    """A call, the schedule that serves it, and the schedule's picture."""
    schedules = schedules_of(tutti, "ring", "all_reduce")
    picture = Picture(760, 360)
    picture.text(12, 22, "A call on four ranks", kind="title")
    picture.text(12, 48, "tuttiAllReduce(in, out, count, tuttiFloat, tuttiSum, comm, NULL)", style=CODE + ";font-size:12px")
    collective(picture, 530, 30, tutti, "all_reduce", "ring", numbers=False)
    picture.text(12, 70, "Colours: whose numbers, before and after, in each quarter of the buffer.", kind="about")
    top = 128
    picture.text(12, top, "Its schedule: what rank 0 does", kind="title")
    for line, step in enumerate(schedules[0][0]):
        picture.text(12, top + 30 + 25 * line, escape(step), style=CODE + ";font-size:12px")
    picture.text(500, top, "The same, drawn for all ranks", kind="title")
    drawn(picture, 530, top + 42, schedules)
    picture.text(12, 342, "One description, which is run, proved, priced, simulated and drawn.", kind="about")
    picture.write(path)


def training(path):
    """A step of data-parallel training."""
    picture = Picture(760, 258)
    columns = [("its own data", 70), ("its own gradient", 270), ("the mean gradient", 500), ("the same weights", 690)]
    for title, x in columns:
        picture.text(x, 22, title, "middle", "title")
    for rank, colour in enumerate(RANK_COLOURS):
        y = 56 + 48 * rank
        picture.text(12, y + 4.5, rank, "start", "about")
        for row in range(3):
            picture.parts.append(f'<rect x="34" y="{y - 16 + 11 * row}" width="72" height="9" fill="{colour}"/>')
        picture.parts.append(f'<rect x="234" y="{y - 9}" width="72" height="18" fill="{colour}"/>')
        for each, stripe in enumerate(RANK_COLOURS):
            picture.parts.append(f'<rect x="{464 + 18 * each}" y="{y - 9}" width="18" height="18" fill="{stripe}"/>')
        picture.parts.append(f'<rect x="654" y="{y - 12}" width="72" height="24" rx="4" fill="{LIGHT}" stroke="{GREY}"/>')
        picture.text(690, y + 4.5, "w", "middle", "", f"fill:{INK}")
        arrow(picture, (112, y), (228, y), GREY, 2, 0)
        arrow(picture, (542, y), (648, y), GREY, 2, 0)
        for other in range(RANKS):
            arrow(picture, (312, 56 + 48 * other), (458, y), SENT, 1.2, 0)
    for words, x in (("compute", 170), ("all_reduce, avg", 385), ("w -= 0.1 g", 595)):
        picture.text(x, 248, words, "middle", "about")
    picture.write(path)


def main(tutti, folder):
    call(tutti, folder / "introduction_call.svg")
    collectives(tutti, folder / "introduction_collectives.svg")
    training(folder / "introduction_training.svg")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], pathlib.Path(sys.argv[2]))
