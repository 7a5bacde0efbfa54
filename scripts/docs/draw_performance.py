#!/usr/bin/env python3
"""Draws the pictures of docs/performance.md and of its notes, from tables in docs/notebook.

    scripts/docs/draw_performance.py docs/pictures
    scripts/docs/draw_performance.py reduce GRID.json >docs/notebook/host_peers/peers_NAME.csv

The second form reduces the output of `tutti-bench grid --json` to the medians that the pictures need. Add the date, the
commit and the command to the first line of the file.
"""
import csv
import json
import math
import pathlib
import sys

sys.dont_write_bytecode = True
from picture import Picture

DATA = pathlib.Path(__file__).resolve().parents[2] / "docs/notebook"
# Name, colour (of Okabe and Ito, who chose them for the colour-blind) and marker.
LIBRARIES = {"tutti": ("Tutti", "#d55e00", "circle"), "impi": ("Intel MPI", "#0072b2", "square"),
             "openmpi5": ("Open MPI 5", "#009e73", "up"), "openmpi": ("Open MPI 4.1", "#56b4e9", "down"),
             "openmpi-ucx": ("Open MPI 4.1 on UCX", "#cc79a7", "diamond"), "mpich5": ("MPICH 5", "#e69f00", "square"),
             "gloo": ("Gloo", "#8892a6", "circle"), "flat": ("naive program", "#8892a6", "square")}
PEERS = [name for name in LIBRARIES if name not in ("tutti", "flat")]
MARKERS = {"circle": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0", "square": "M-3.5-3.5h7v7h-7z", "up": "M0-5L4.5 4h-9z",
           "down": "M0 5L4.5-4h-9z", "diamond": "M0-5.5L4.5 0L0 5.5L-4.5 0z"}
# The greatest ratio of each colour, the colour, and the colour of text on it.
RATIOS = [(0.5, "#4393c3", "#0b1a26"), (0.7, "#92c5de", "#0b1a26"), (0.9, "#d1e5f0", "#0b1a26"),
          (1.02, "#eceff3", "#0b1a26"), (1.2, "#fdc98a", "#0b1a26"), (1.5, "#f4934e", "#0b1a26"),
          (math.inf, "#b93a05", "#ffffff")]
ALIKE = 1.02  # what is above has lost
COLLECTIVES = [("all_reduce", "out", "all-reduce"), ("all_reduce", "in", "all-reduce, in place"),
               ("reduce_scatter", "out", "reduce-scatter"), ("all_gather", "out", "all-gather"),
               ("all_to_all", "out", "all-to-all"), ("broadcast", "in", "broadcast")]
GRIDS = [("xeon", "Xeon"), ("near", "EPYC, cores near"), ("far", "EPYC, cores far apart")]


def read(name):
    """The rows of a file; fields that hold numbers are numbers, and empty ones are left out."""
    def number(field):
        try:
            return float(field)
        except ValueError:
            return field
    with open(DATA / f"{name}.csv", encoding="utf-8") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return [{key: number(field) for key, field in row.items() if field} for row in rows]


def best_peer(row):
    return min(row[peer] for peer in PEERS if peer in row)


def size(count):
    for unit in ("", "K", "M"):
        if count < 1024:
            return f"{count:g}{unit}"
        count /= 1024
    return f"{count:g}G"


def duration(us):
    return f"{us:g} us" if us < 1000 else f"{us / 1000:g} ms" if us < 1e6 else f"{us / 1e6:g} s"


class Measured(Picture):
    """A picture with the libraries' markers and cells of ratios."""

    def marker(self, x, y, library, about=""):
        _, colour, shape = LIBRARIES[library]
        self.parts.append(f'<path transform="translate({x:.1f},{y:.1f})" d="{MARKERS[shape]}" fill="{colour}">'
                          f"<title>{about}</title></path>")

    def box(self, x, y, width, height, ratio, words):
        """A cell of a heat map. One that has lost has a frame and bold text."""
        _, fill, ink = next(each for each in RATIOS if ratio <= each[0])
        lost = ratio > ALIKE
        frame = ' stroke="#7f2704" stroke-width="2"' if lost else ""
        self.parts.append(f'<rect x="{x + 1:.1f}" y="{y + 1:.1f}" width="{width - 2}" height="{height - 2}" '
                          f'fill="{fill}"{frame}/>')
        self.text(x + width / 2, y + height / 2 + 4.5, words, "middle", "title" if lost else "", f"fill:{ink}")


def curves(path, title, value, of_axis, log):
    """All-reduce on 2, 4 and 8 ranks of the Xeon: value(row, library) over the size."""
    rows = [row for row in read("host_peers/peers_xeon") if (row["collective"], row["place"]) == ("all_reduce", "out")]
    for row in read("host_peers/peers_mpich5"):
        for each in rows:
            if all(each[key] == row[key] for key in ("collective", "place", "ranks", "bytes")):
                each["mpich5"] = row["mpich5"]
    libraries = [name for name in LIBRARIES if name != "flat"]
    picture = Measured(960, 420)
    picture.text(12, 22, title, kind="title")
    x = 12.0
    for name in libraries:
        picture.marker(x + 6, 44, name)
        picture.text(x + 16, 48.5, LIBRARIES[name][0], kind="title" if name == "tutti" else "")
        x += 40 + 8.2 * len(LIBRARIES[name][0])
    top, bottom = 92, 366
    for panel, ranks in enumerate((2, 4, 8)):
        left, right = 62 + 305 * panel, 62 + 305 * panel + 238
        here = [row for row in rows if row["ranks"] == ranks]
        picture.text((left + right) / 2, top - 12, f"{ranks} ranks", "middle", "title")
        values = [value(row, name) for row in here for name in libraries if name in row]
        if log:
            ticks = [10.0 ** power for power in range(-1, 7)]
        else:
            step = next(each for each in (0.5, 1, 2, 4) if max(values) / each < 6)
            ticks = [step * index for index in range(math.ceil(max(values) / step) + 1)]
        scale = math.log10 if log else float
        low, high = scale(ticks[0]), scale(ticks[-1])

        def at(count, of, left=left, right=right, low=low, high=high, scale=scale):
            octave = (math.log2(count) - 3) / 24  # 8 B to 128 MiB
            return left + 8 + octave * (right - left - 16), bottom - (scale(of) - low) / (high - low) * (bottom - top)

        for tick in ticks:
            y = at(8, tick)[1]
            picture.line(left, y, right, y)
            picture.text(left - 6, y + 4.5, of_axis(tick), "end")
        for row in here:
            x = at(row["bytes"], ticks[0])[0]
            picture.line(x, top, x, bottom)
            last = row is here[-1]  # near the one before
            picture.text(x - 9 if last else x, bottom + 18, size(row["bytes"]), "start" if last else "middle")
        picture.text((left + right) / 2, bottom + 38, "bytes", "middle", "about")
        for name in reversed(libraries):
            points = [(row["bytes"], value(row, name)) for row in here if name in row]
            way = "L".join("{:.1f} {:.1f}".format(*at(*point)) for point in points)
            picture.parts.append(f'<path d="M{way}" fill="none" stroke="{LIBRARIES[name][1]}" '
                                 f'stroke-width="{3 if name == "tutti" else 1.4}"/>')
            for point in points:
                about = of_axis(float(f"{point[1]:.3g}"))
                picture.marker(*at(*point), name, f"{LIBRARIES[name][0]}, {size(point[0])}: {about}")
    picture.write(path)


def heat_map(path, title, divisor):
    """Tutti's time over divisor(row), for each cell of each grid."""
    row_height, cell, left = 22, 47, 172
    picture = Measured(left + 16 * cell + 2 * 14 + 8, 106 + 18 * row_height + 5 * 6 + 12)
    picture.text(12, 22, title, kind="title")
    x = 12
    for limit, _, _ in RATIOS:
        words = f"to {limit:g}" if limit < math.inf else "above 1.5"
        picture.box(x, 33, 78, row_height, limit if limit < math.inf else 2, words)
        x += 80
    picture.text(x + 8, 49, "1.0: as fast. A frame: slower.")
    left_of = left
    for grid, name in GRIDS:
        cells = {(row["collective"], row["place"], row["ranks"], row["bytes"]): row for row in read(f"host_peers/peers_{grid}")}
        sizes = sorted({key[3] for key in cells})
        picture.text(left_of + len(sizes) * cell / 2, 80, name, "middle", "title")
        for column, count in enumerate(sizes):
            x = left_of + column * cell
            picture.text(x + cell / 2, 98, size(count), "middle", "about")
            y = 104
            for collective, place, _ in COLLECTIVES:
                for ranks in (2, 4, 8):
                    row = cells[collective, place, ranks, count]
                    ratio = row["tutti"] / divisor(row)
                    picture.box(x, y, cell, row_height, ratio, f"{ratio:.2f}")
                    y += row_height
                y += 6
        left_of += len(sizes) * cell + 14
    y = 104
    for _, _, name in COLLECTIVES:
        picture.text(12, y + row_height / 2 + 4.5, name)
        for ranks in (2, 4, 8):
            picture.text(left - 6, y + row_height / 2 + 4.5, ranks, "end", "about")
            y += row_height
        y += 6
    picture.text(left - 6, 98, "ranks", "end", "about")
    picture.write(path)


def hosts(path):
    """Tutti's time over the best peer's, over the size, on 2 and 4 hosts."""
    rows = read("performance/hosts")
    picture = Measured(960, 356)
    picture.text(12, 22, "All-reduce between hosts: Tutti's time as a part of the best peer's, below 1.0 faster",
                 kind="title")
    top, bottom, low, high = 62, 306, 0.3, 1.2

    def height(ratio):
        return bottom - (ratio - low) / (high - low) * (bottom - top)

    for panel, count in enumerate((2, 4)):
        left, width = 44 + 470 * panel, 434
        here = [row for row in rows if row["hosts"] == count]
        step = width / len(here)
        picture.text(left + width / 2, top - 14, f"{count} hosts, one rank each", "middle", "title")
        for tick in (0.4, 0.6, 0.8, 1.0):
            picture.line(left, height(tick), left + width, height(tick), "one" if tick == 1 else "grid")
            picture.text(left - 6, height(tick) + 4.5, f"{tick:.1f}", "end", "title" if tick == 1 else "")
        for index, row in enumerate(here):
            x, ratio = left + step * (index + 0.5), row["tutti"] / best_peer(row)
            lost = ratio > 1
            colour = "#d55e00" if lost else "#0072b2"
            y = height(ratio)
            picture.parts.append(f'<path d="M{x:.1f} {height(1):.1f}V{y:.1f}" stroke="{colour}" stroke-width="2"/>'
                                 f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{colour}"/>')
            picture.text(x, y + (-11 if lost else 21), f"{ratio:.2f}", "middle", "title" if lost else "")
            if index % 2 == 0:
                picture.text(x, bottom + 18, size(row["bytes"]), "middle")
        picture.text(left + width / 2, bottom + 38, "bytes", "middle", "about")
    picture.write(path)


def reduce(path):
    with open(path, encoding="utf-8") as file:
        grid = json.load(file)
    if any(each["wrong"] for cell in grid["results"] for each in cell["results"]):
        sys.exit(f"{path} has wrong results")
    present = {each["library"] for cell in grid["results"] for each in cell["results"]}
    libraries = [name for name in LIBRARIES if name in present]
    print(f"# {grid['machine']['cpu']}, {grid['machine']['cores']} cores, {grid['machine']['kernel']}")
    print("# Medians in microseconds; reduced from the output of tutti-bench --json. No value was wrong.")
    print(",".join(["collective", "place", "ranks", "bytes", "bound", *libraries]))
    for cell in grid["results"]:
        times = {each["library"]: f"{each['median_us']:.4g}" for each in cell["results"]}
        print(",".join([cell["collective"].replace("alltoall", "all_to_all"), "in" if cell["in_place"] else "out",
                        str(cell["ranks"]), str(cell["bytes"]), f"{cell['bound_us']:.4g}",
                        *(times.get(name, "") for name in libraries)]))


def bus_bandwidth(row, library):
    """GB/s, by nccl-tests' formula for all-reduce."""
    return 2 * (row["ranks"] - 1) / row["ranks"] * row["bytes"] / row[library] / 1e3


def main(folder):
    what = "All-reduce of floats on one host of two cores: "
    curves(folder / "performance_time.svg", what + "time (lower is better)", lambda row, library: row[library],
           duration, True)
    curves(folder / "performance_bandwidth.svg", what + "bus bandwidth in GB/s (higher is better)", bus_bandwidth,
           lambda gbs: f"{gbs:g}", False)
    ratio = "Tutti's time as a part of the {}'s: below 1.0 Tutti is faster"
    heat_map(folder / "performance_ratio.svg", ratio.format("best peer"), best_peer)
    heat_map(folder / "performance_naive.svg", ratio.format("naive program"), lambda row: row["flat"])
    hosts(folder / "performance_hosts.svg")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "reduce":
        reduce(sys.argv[2])
    elif len(sys.argv) == 2:
        main(pathlib.Path(sys.argv[1]))
    else:
        sys.exit(__doc__)
