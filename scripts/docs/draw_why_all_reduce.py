#!/usr/bin/env python3
"""Draws the pictures of docs/why_all_reduce.md.

    scripts/docs/draw_why_all_reduce.py TUTTI docs/pictures

What ranks send comes from the schedules that `tutti show` prints, so the pictures show what the library does. The
curves are docs/notebook/parallel/baselines.csv, which scripts/measure/baselines.py makes.
"""
import collections
import json
import math
import pathlib
import re
import sys

sys.dont_write_bytecode = True
from draw_performance import MARKERS, duration, read
from picture import GREY, INK, LIGHT, RANK_COLOURS, SENT, Picture, arrow, disc
from schedules import shown

ALGORITHMS = {"parameter_server": ("parameter server", "#cc79a7", "square"),
              "all_to_all_broadcast": ("everyone broadcasts", "#56b4e9", "diamond"),
              "ring": ("ring", "#d55e00", "circle"), "two_level": ("layers of rings", "#e69f00", "up"),
              "double_binary_tree": ("double binary tree", "#0072b2", "down"),
              "two_level_tree": ("layers of trees", "#009e73", "diamond")}
Step = collections.namedtuple("Step", "block adds writes")  # adds: reads a contribution; writes: (rank, connection)


def schedules_of(tutti, algorithm, ranks, *options):
    """[rank][channel][lane][step] of an all-reduce."""
    def read(text):
        writes = [(int(to), int(by or 0)) for to, by in re.findall(r"to\((\d+)(?:, (\d+))?\)", text)]
        return Step(int(re.search(r"block (\d+)", text)[1]), "scaled in" in text, writes)
    return [[[[read(step) for step in lane] for lane in channel] for channel in schedule]
            for schedule in shown(tutti, "all_reduce", algorithm, ranks, *options)]


def blocks_of(schedules):
    return 1 + max(step.block for channels in schedules for lanes in channels for lane in lanes for step in lane)


def traffic(schedules):
    """{(from, to, connection): buffers}"""
    share = 1 / blocks_of(schedules) / len(schedules[0])
    sent = collections.Counter()
    for rank, channels in enumerate(schedules):
        for lane in (lane for lanes in channels for lane in lanes):
            for step in lane:
                for to, connection in step.writes:
                    sent[rank, to, connection] += share
    return sent


def number(value):
    return f"{value:.3g}"


def ways(tutti, path):
    """Three ways for four ranks: arrows as wide as what goes over them."""
    picture = Picture(960, 300)
    panels = [("parameter_server", "A parameter server (rank 0)"), ("all_to_all_broadcast", "Everyone broadcasts"),
              ("ring", "A ring")]
    for place, (algorithm, title) in enumerate(panels):
        schedules = schedules_of(tutti, algorithm, 4)
        middle, down = 160 + 320 * place, 142
        where = [(middle + 82 * math.cos(angle), down + 82 * math.sin(angle))
                 for angle in (math.radians(90 * rank - 135) for rank in range(4))]
        picture.text(middle, 22, title, "middle", "title")
        sent, received, both = collections.Counter(), collections.Counter(), traffic(schedules)
        for (start, end, _), buffers in both.items():
            sent[start] += buffers
            received[end] += buffers
            arrow(picture, where[start], where[end], SENT, 1 + 2.4 * buffers, 19,
                  9 if (end, start, 0) in both else 0)
        for rank, (x, y) in enumerate(where):
            disc(picture, x, y, rank)
        picture.text(middle, 260, f"The busiest rank sends {number(max(sent.values()))} buffers", "middle")
        words = f"and receives {number(max(received.values()))}; all send {number(sum(sent.values()))}"
        picture.text(middle, 280, words, "middle")
    picture.write(path)


def grid(picture, left, top, title, holds, moving):
    """A step of the ring: whose gradients each rank (a column) has in each block (a row); {rank: (block, to)} moves."""
    ranks, cell, apart = len(RANK_COLOURS), 26, 50
    picture.text(left + 1.5 * apart + cell / 2, top - 28, title, "middle", "title")
    for rank in range(ranks):
        x = left + rank * apart
        picture.text(x + cell / 2, top - 8, rank, "middle", "about")
        for block in range(ranks):
            y = top + block * (cell + 6)
            of_cell = f'x="{x}" y="{y}" width="{cell}" height="{cell}"'
            picture.parts.append(f'<rect {of_cell} fill="{GREY}" fill-opacity=".15"/>')
            for each in sorted(holds[rank, block]):
                picture.parts.append(f'<rect x="{x + each * cell / ranks}" y="{y}" width="{cell / ranks}" '
                                     f'height="{cell}" fill="{RANK_COLOURS[each]}"/>')
            if len(holds[rank, block]) == ranks:
                picture.parts.append(f'<rect class="one" {of_cell} fill="none"/>')
    for rank, (block, to) in moving.items():
        x, y = left + rank * apart + cell + 1, top + block * (cell + 6) + cell / 2
        arrow(picture, (x, y), (x + apart - cell - 2, y), SENT, 2, 0)
        if to < rank:  # round the end: it comes in at the left
            arrow(picture, (left - apart + cell + 1, y), (left - 1, y), SENT, 2, 0)


def ring_steps(tutti, path):
    """The ring of four ranks, step by step: whose gradients are in each block, and what is sent."""
    lanes = [channels[0][0] for channels in schedules_of(tutti, "ring", len(RANK_COLOURS))]
    ranks, steps = len(lanes), len(lanes[0])
    picture = Picture(1000, 452)
    picture.text(12, 22, "A ring of four ranks, step by step", kind="title")
    holds = {(rank, block): {rank} for rank in range(ranks) for block in range(ranks)}
    carried = {}  # by the rank to which it is sent
    for step in range(steps):
        moving, sent = {}, {}
        for rank, lane in enumerate(lanes):
            block, adds, writes = lane[step]
            holds[rank, block] = carried.get(rank, set()) | ({rank} if adds else set())
            for to, _ in writes:
                moving[rank], sent[to] = (block, to), holds[rank, block]
        carried = sent
        line, column = divmod(step, ranks - 1) if step < steps - 1 else (1, ranks - 1)
        title = "done" if not moving else f"{('reduce-scatter', 'all-gather')[line]}, step {column + 1} of {ranks - 1}"
        grid(picture, 42 + 248 * column, 92 + 208 * line, title, holds, moving)
    x, y = 42 + 248 * (ranks - 1) - 18, 64
    for words in ("Column: a rank.", "Row: a quarter of its gradients.", "Stripe: whose are in the sum:"):
        picture.text(x, y, words)
        y += 22
    for rank, colour in enumerate(RANK_COLOURS):
        picture.parts.append(f'<rect x="{x + 46 * rank}" y="{y - 11}" width="8" height="14" fill="{colour}"/>')
        picture.text(x + 46 * rank + 13, y, rank)
    picture.parts.append(f'<rect class="one" x="{x}" y="{y + 12}" width="14" height="14" fill="none"/>')
    picture.text(x + 22, y + 24, "the sum of all ranks")
    arrow(picture, (x, y + 44), (x + 24, y + 44), SENT, 2, 0)
    picture.text(x + 32, y + 48, "sent in this step")
    picture.write(path)


def layers(tutti, path):
    """Three nodes of four ranks: what goes over which link, in the two layers."""
    nodes, each = 3, 4
    sent = traffic(schedules_of(tutti, "two_level", nodes * each, "--nodes", str(nodes)))
    picture = Picture(960, 330)
    stages = [("1. Inside nodes: sums of each quarter",
               lambda start, end, by: start // each == end // each and by == 0),
              ("2. Between nodes: a ring for each quarter", lambda start, end, by: start // each != end // each),
              ("3. Inside nodes: results", lambda start, end, by: start // each == end // each and by == 1)]
    for place, (title, belongs) in enumerate(stages):
        left = 14 + 320 * place
        picture.text(left + 146, 22, title, "middle", "title")
        where = {}
        for node in range(nodes):
            x = left + 102 * node
            picture.parts.append(f'<rect x="{x}" y="40" width="88" height="228" rx="8" fill="{GREY}" '
                                 'fill-opacity=".15"/>')
            picture.text(x + 44, 288, f"node {node}", "middle", "about")
            for local in range(each):
                where[node * each + local] = (x + 44 + (0 if place == 1 else (-20, 20)[local % 2]), 68 + 57 * local)
        here = {pair: buffers for pair, buffers in sent.items() if belongs(*pair)}
        for (start, end, _), buffers in here.items():
            around = abs(start - end) > each and place == 1
            bend = 0 if place == 1 and not around else 52 if around else 4
            arrow(picture, where[start], where[end], RANK_COLOURS[end % each], 1 + 4 * buffers, 17, bend)
        for rank, (x, y) in where.items():
            disc(picture, x, y, rank)
        most = max(sum(buffers for (start, _, _), buffers in here.items() if start == rank) for rank in where)
        picture.text(left + 146, 314, f"the busiest rank sends {number(most)} buffers", "middle")
    picture.write(path)


def trees(tutti, path):
    """The two trees of eight ranks, each with its half of the data."""
    schedules = schedules_of(tutti, "double_binary_tree", 8)
    picture = Picture(960, 322)
    for tree in range(2):
        left = 20 + 480 * tree
        parents = {rank: channels[tree][0][0].writes[0][0] for rank, channels in enumerate(schedules)
                   if len(channels[tree]) > 1}
        inner = set(parents.values())

        def depth(rank, parents=parents):
            return 1 + depth(parents[rank]) if rank in parents else 0

        where = {rank: (left + 30 + 54 * rank, 70 + 58 * depth(rank)) for rank in range(len(schedules))}
        title = f"Tree {tree + 1}, for {('one', 'the other')[tree]} half of the gradients"
        picture.text(left + 220, 22, title, "middle", "title")
        for rank, parent in parents.items():
            arrow(picture, where[rank], where[parent], SENT, 2, 18)
        for rank, (x, y) in where.items():
            disc(picture, x, y, rank, "#0072b2" if rank in inner else LIGHT, "#ffffff" if rank in inner else INK)
    disc(picture, 330, 300, "", "#0072b2")
    picture.text(352, 305, "adds what its children send")
    disc(picture, 590, 300, "")
    picture.text(612, 305, "leaf: only sends its own")
    picture.write(path)


def curves(path):
    """Bytes and times over the number of ranks: two machines simulated, one measured."""
    rows = read("parallel/baselines")
    machines = [("one_gpu_a_node", "Simulated: every rank one H100 with a port of 400 Gbit/s"),
                ("eight_gpus_a_node", "Simulated: nodes of eight H100, NVLink inside, a port for each GPU"),
                ("hosts", "Measured (markers) beside simulated (lines): hosts of two ranks, links of 100 Mbit/s")]
    picture = Picture(960, 958)
    x = 12
    for name, colour, shape in ALGORITHMS.values():
        picture.parts.append(f'<path d="M{x} 22h26" stroke="{colour}" stroke-width="2.2"/>'
                             f'<path transform="translate({x + 13},22)" d="{MARKERS[shape]}" fill="{colour}"/>')
        picture.text(x + 32, 26.5, name)
        x += 50 + 7.8 * len(name)
    for line, (machine, title) in enumerate(machines):
        here = [row for row in rows if row["machine"] == machine]
        sizes = sorted({row["bytes"] for row in here})
        top = 96 + 302 * line
        picture.text(12, top - 34, title, kind="title")
        largest = [row for row in here if row["bytes"] == sizes[-1]]
        panel(picture, 62, top, "busiest rank sends (buffers)", largest, "sent", lambda value: f"{value:g}")
        panel(picture, 374, top, f"time of {sizes[-1] / 2**20:g} MiB", largest, "us", duration)
        if machine != "hosts":  # the cluster's two cores cost more there than its links
            smallest = [row for row in here if row["bytes"] == sizes[0]]
            panel(picture, 686, top, f"time of {sizes[0] / 2**10:g} KiB", smallest, "us", duration)
    picture.write(path)


def panel(picture, left, top, title, rows, key, of_axis):
    right, bottom = left + 240, top + 190
    measured = any(row["kind"] == "measured" for row in rows)
    most = 8 if measured else 1024
    rows = [row for row in rows if key in row]
    low, high = (bound(math.log10(row[key]) for row in rows) for bound in (min, max))
    low, high = math.floor(low + 1e-9), math.ceil(high - 1e-9)

    def at(ranks, value):
        return (left + 8 + (math.log2(ranks) - 1) / (math.log2(most) - 1) * (right - left - 16),
                bottom - (math.log10(value) - low) / (high - low) * (bottom - top))

    picture.text((left + right) / 2, top - 10, title, "middle", "about")
    for power in range(low, high + 1):
        y = at(2, 10.0 ** power)[1]
        picture.line(left, y, right, y)
        picture.text(left - 6, y + 4.5, of_axis(10.0 ** power), "end")
    for ranks in (2, 4, 8) if measured else (2, 8, 32, 128, 1024):
        x = at(ranks, 10.0 ** low)[0]
        picture.line(x, top, x, bottom)
        picture.text(x, bottom + 18, ranks, "middle")
    picture.text((left + right) / 2, bottom + 36, "ranks", "middle", "about")
    for algorithm, (name, colour, shape) in sorted(ALGORITHMS.items()):  # the broadcast's line comes first, below
        wide = 6 if algorithm == "all_to_all_broadcast" else 2.2  # so that both are seen where the server's is the same
        for kind in ("simulated", "measured"):
            points = [(row["ranks"], row[key]) for row in rows if (row["algorithm"], row["kind"]) == (algorithm, kind)]
            if kind == "simulated" and points:
                way = "L".join("{:.1f} {:.1f}".format(*at(*point)) for point in points)
                picture.parts.append(f'<path d="M{way}" fill="none" stroke="{colour}" stroke-width="{wide}"/>')
            for point in points if kind == "measured" or not measured else []:
                place = "translate({:.1f},{:.1f})".format(*at(*point))
                about = f"{name}, {point[0]:g} ranks: {of_axis(float(number(point[1])))}"
                picture.parts.append(f'<path transform="{place}" d="{MARKERS[shape]}" fill="{colour}">'
                                     f"<title>{about}</title></path>")


def main(tutti, folder):
    ways(tutti, folder / "why_ways.svg")
    ring_steps(tutti, folder / "why_ring_steps.svg")
    layers(tutti, folder / "why_layers.svg")
    trees(tutti, folder / "why_trees.svg")
    curves(folder / "why_curves.svg")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], pathlib.Path(sys.argv[2]))
