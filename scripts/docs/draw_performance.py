#!/usr/bin/env python3
"""Draws the pictures of docs/performance.md and of its notes, from tables in docs/notebook.

    scripts/docs/draw_performance.py docs/pictures
    scripts/docs/draw_performance.py reduce GRID.json... >docs/notebook/NAME.csv

The second form reduces outputs of `tutti-bench grid --json` to the medians that the pictures need. Add the date, the
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
# File and title of each panel of a heat map.
ONE_HOST = [("host_peers/peers_xeon", "Xeon"), ("host_peers/peers_near", "EPYC, cores near"),
            ("host_peers/peers_far", "EPYC, cores far apart")]
HOSTS = [("performance/hosts_none", "not protected"), ("performance/hosts_authenticate", "authenticated (default)")]


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
    return min((row[peer] for peer in PEERS if peer in row), default=None)


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


def heat_map(path, title, panels, shapes, divisor):
    """Tutti's time over divisor(row), for each cell of each panel's file. `shapes`: of (hosts, ranks), in rows."""
    row_height, cell, left = 22, 47, 172 if shapes[0][0] == 1 else 196
    files = [(name, {(row["collective"], row["place"], row.get("hosts", 1), row["ranks"], row["bytes"]): row
                     for row in read(file)}) for file, name in panels]
    sizes = [sorted({key[-1] for key in cells}) for _, cells in files]
    height = len(shapes) * row_height + 6
    picture = Measured(max(730, left + sum(map(len, sizes)) * cell + (len(files) - 1) * 14 + 8),
                       112 + len(COLLECTIVES) * height)
    picture.text(12, 22, title, kind="title")
    x = 12
    for limit, _, _ in RATIOS:
        words = f"to {limit:g}" if limit < math.inf else "above 1.5"
        picture.box(x, 33, 78, row_height, limit if limit < math.inf else 2, words)
        x += 80
    picture.text(x + 8, 49, "A frame: slower.")
    left_of = left
    for (name, cells), counts in zip(files, sizes):
        picture.text(left_of + len(counts) * cell / 2, 80, name, "middle", "title")
        for column, count in enumerate(counts):
            x = left_of + column * cell
            picture.text(x + cell / 2, 98, size(count), "middle", "about")
            for number, (collective, place, _) in enumerate(COLLECTIVES):
                for place_of, (hosts, ranks) in enumerate(shapes):
                    row = cells.get((collective, place, hosts, ranks, count))
                    if row is None or "tutti" not in row or divisor(row) is None:
                        continue
                    ratio = row["tutti"] / divisor(row)
                    y = 104 + number * height + place_of * row_height
                    picture.box(x, y, cell, row_height, ratio, f"{ratio:.2f}")
        left_of += len(counts) * cell + 14
    for number, (_, _, name) in enumerate(COLLECTIVES):
        y = 104 + number * height + row_height / 2 + 4.5
        picture.text(12, y, name)
        for place_of, (hosts, ranks) in enumerate(shapes):
            words = ranks if hosts == 1 else f"{hosts} x {ranks // hosts}"
            picture.text(left - 6, y + place_of * row_height, words, "end", "about")
    picture.text(left - 6, 98, "ranks" if shapes[0][0] == 1 else "hosts x ranks", "end", "about")
    picture.write(path)


def reduce(paths):
    grids = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            grids.append(json.load(file))
        for cell in grids[-1]["results"]:
            cell["results"] = [each for each in cell["results"] if "median_us" in each]  # others failed, or were left out
            if any(each["wrong"] for each in cell["results"]):
                sys.exit(f"{path} has wrong results")
    present = {each["library"] for grid in grids for cell in grid["results"] for each in cell["results"]}
    libraries = [name for name in LIBRARIES if name in present]
    machine = grids[0]["machine"]
    print(f"# {machine['cpu']}, {machine['cores']} cores, {machine['kernel']}")
    print("# Medians in microseconds; reduced from the output of tutti-bench --json. No value was wrong.")
    print(",".join(["collective", "place", "hosts", "ranks", "bytes", "bound", *libraries]))
    for grid in grids:
        for cell in grid["results"]:
            times = {each["library"]: f"{each['median_us']:.4g}" for each in cell["results"]}
            print(",".join([cell["collective"].replace("alltoall", "all_to_all"), "in" if cell["in_place"] else "out",
                            str(grid["cluster"]["hosts"]), str(cell["ranks"]), str(cell["bytes"]),
                            f"{cell['bound_us']:.4g}", *(times.get(name, "") for name in libraries)]))


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
    ranks = [(1, 2), (1, 4), (1, 8)]
    heat_map(folder / "performance_ratio.svg", ratio.format("best peer"), ONE_HOST, ranks, best_peer)
    heat_map(folder / "performance_naive.svg", ratio.format("naive program"), ONE_HOST, ranks, lambda row: row.get("flat"))
    shapes = [(2, 2), (3, 3), (4, 4), (2, 4), (2, 8), (4, 8)]
    heat_map(folder / "performance_hosts.svg", ratio.format("best peer"), HOSTS, shapes, best_peer)


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "reduce":
        reduce(sys.argv[2:])
    elif len(sys.argv) == 2:
        main(pathlib.Path(sys.argv[1]))
    else:
        sys.exit(__doc__)
