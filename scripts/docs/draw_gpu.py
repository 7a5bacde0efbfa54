#!/usr/bin/env python3
"""Draws the pictures of docs/gpu.md from docs/data/gpu/*/bandwidth.csv and latency.csv, of the GPU that was last compared.

    scripts/docs/draw_gpu.py docs/pictures
"""
import math
import pathlib
import sys

sys.dont_write_bytecode = True
from draw_performance import MARKERS, read, size
from picture import Picture

DATA = pathlib.Path(__file__).resolve().parents[2] / "docs/data/gpu"
# Name, colour (of Okabe and Ito, who chose them for the colour-blind) and marker.
LIBRARIES = {"tutti": ("Tutti", "#d55e00", "circle"), "nccl": ("NCCL", "#009e73", "square")}
RANKS = (2, 4, 8)
WIDTH = 960


def newest():
    """The folder of the last comparison, and who was measured."""
    def head(path):
        return path.read_text(encoding="utf-8").split("\n")[0]
    compared = [path for path in DATA.glob("*/bandwidth.csv") if "\ncompare,all_reduce_" in path.read_text(encoding="utf-8")]
    path = max(compared, key=lambda path: head(path).rsplit(", ", 1)[1])
    gpu = head(path).split(",")[0].removeprefix("# ")
    count = path.parent.name.partition("_")[0]
    ranks = f"ranks on {count} x {gpu}" if count.isdigit() else f"ranks that share one {gpu}"
    return f"../data/gpu/{path.parent.name}", ranks


def legend(picture):
    for index, (name, colour, shape) in enumerate(LIBRARIES.values()):
        picture.parts.append(f'<path transform="translate({18 + 80 * index},44)" d="{MARKERS[shape]}" fill="{colour}"/>')
        picture.text(28 + 80 * index, 48.5, name)


def bandwidth(rows, whose, path):
    """All-reduce: bus bandwidth over the size."""
    rows = [row for row in rows if row["group"] == "compare" and row["step"] in {f"all_reduce_{ranks}" for ranks in RANKS}]
    top, bottom, panel_width = 92, 366, 305
    counts = sorted({row["bytes"] for row in rows})
    highest = max(row[f"{name}_gbs"] for row in rows for name in LIBRARIES if f"{name}_gbs" in row)
    step = next(each for each in (50, 100, 200, 500, 1000) if highest / each < 6)
    ticks = [step * index for index in range(math.ceil(highest / step) + 1)]
    picture = Picture(WIDTH, 420)
    picture.text(12, 22, f"All-reduce of {whose}: bus bandwidth in GB/s (higher is better)", kind="title")
    legend(picture)

    def across(count):
        return 12 + math.log(count / counts[0]) / math.log(counts[-1] / counts[0]) * 210

    def up(gbs):
        return bottom - gbs / ticks[-1] * (bottom - top)

    for panel, ranks in enumerate(RANKS):
        left = 62 + panel_width * panel
        picture.text(left + 117, top - 12, f"{ranks} ranks", "middle", "title")
        for tick in ticks:
            picture.line(left, up(tick), left + 234, up(tick))
            picture.text(left - 6, up(tick) + 4.5, f"{tick}", "end")
        for count in counts:
            picture.line(left + across(count), top, left + across(count), bottom)
            picture.text(left + across(count), bottom + 18, size(count), "middle")
        picture.text(left + 117, bottom + 38, "bytes", "middle", "about")
        for library, (name, colour, shape) in LIBRARIES.items():
            points = [(left + across(row["bytes"]), up(row[f"{library}_gbs"]), row) for row in rows
                      if row["ranks"] == ranks and f"{library}_gbs" in row]
            if not points:
                continue
            way = "L".join(f"{x:.1f} {y:.1f}" for x, y, _ in points)
            picture.parts.append(f'<path d="M{way}" fill="none" stroke="{colour}" stroke-width="2.4"/>')
            for x, y, row in points:
                about = f"{name}, {size(row['bytes'])}: {row[f'{library}_gbs']:.3g} GB/s, {row[f'{library}_us']:g} us"
                picture.parts.append(f'<path transform="translate({x:.1f},{y:.1f})" d="{MARKERS[shape]}" fill="{colour}">'
                                     f"<title>{about}</title></path>")
    picture.write(path)


def latency(rows, whose, path):
    """Bars of the time of the least all-reduce, in graphs and called by threads."""
    least = min(row["bytes"] for row in rows)
    cells = {(row["group"], row["step"]): row for row in rows if row["bytes"] == least}
    picture = Picture(WIDTH, 330)
    picture.text(12, 22, f"All-reduce of {least:g} bytes by {whose}: time in us (lower is better)", kind="title")
    legend(picture)
    bars = []  # words, library, us
    for prefix, words in (("graph_", "in a graph"), ("", "called by threads")):
        for ranks in RANKS:
            step = f"{prefix}all_reduce_{ranks}"
            row = next((cells[key] for key in (("compare", step), ("measure", step)) if key in cells), {})
            bars.append((f"{ranks} ranks, {words}", [(library, row.get(f"{library}_us")) for library in LIBRARIES]))
    left, right, top, row_height, bar_height = 200, 900, 66, 42, 15
    longest = max(us for _, pair in bars for _, us in pair if us)
    for index, (words, pair) in enumerate(bars):
        y = top + index * row_height
        picture.text(left - 10, y + bar_height + 5, words, "end")
        for place, (library, us) in enumerate(pair):
            bar_y = y + place * (bar_height + 1)
            if us is None:
                picture.text(left + 6, bar_y + 12, "not measured", kind="about")
                continue
            width = us / longest * (right - left)
            picture.parts.append(f'<rect x="{left}" y="{bar_y}" width="{width:.1f}" height="{bar_height}" '
                                 f'fill="{LIBRARIES[library][1]}"><title>{LIBRARIES[library][0]}: {us:g} us</title></rect>')
            picture.text(left + width + 6, bar_y + 12, f"{us:.1f}")
    picture.write(path)


def main(folder):
    of_gpu, whose = newest()
    bandwidth(read(f"{of_gpu}/bandwidth"), whose, folder / "gpu_bandwidth.svg")
    latency(read(f"{of_gpu}/latency"), whose, folder / "gpu_latency.svg")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
