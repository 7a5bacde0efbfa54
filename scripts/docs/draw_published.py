#!/usr/bin/env python3
"""Makes docs/simulator.md's comparison with published measurements from the table that the simulator prints:

    tutti simulate --published selection/simulator/testdata/published.csv | scripts/docs/draw_published.py docs

It writes all rows to docs/notebook/simulator/published.csv, draws their errors in docs/pictures/simulator-published.svg, and
prints the tables of the page. The protocol and the chunk of a row are the fastest ones.
"""
import csv
import pathlib
import statistics
import sys

sys.dont_write_bytecode = True
from draw_performance import MARKERS, size
from picture import Picture

COLUMNS = ("system", "ranks", "nodes", "collective", "algorithm", "bytes", "published_us", "simulated_us", "error_percent",
           "fitted", "protocol", "chunk")
GENERATIONS = {"A100": "#0072b2", "H100 and H200": "#d55e00", "B200 and GB200": "#009e73"}
ALGORITHMS = {"ring": "circle", "nvls": "square", "tree": "up", "direct": "diamond"}
MIB = 1 << 20
SIZES = {"up to 1 MiB": (0, MIB), "2 to 64 MiB": (MIB + 1, 64 * MIB), "256 MiB and more": (64 * MIB + 1, 1 << 62)}


def generation(row):
    system = row["system"].replace("p5.48xlarge", "H100")
    return next(name for name in GENERATIONS if any(gpu in system for gpu in name.split(" and ")))


def parse(lines):
    """The rows of the table, and the lines of the summary after it."""
    rows = []
    for number, line in enumerate(lines):
        if not line.startswith("|"):
            return rows, lines[number + 1:]
        fields = [field.strip() for field in line.strip().strip("|").split("|")]
        if number < 2:  # names and alignments
            continue
        protocol, chunk = fields[9].split(", ")
        error = fields[8].split()
        rows.append(dict(zip(COLUMNS, (*fields[:8], error[0], "yes" if "(fitted)" in error else "no", protocol, chunk))))
    return rows, []


def errors_of(rows):
    return [abs(float(row["error_percent"])) for row in rows]


def draw(rows, path):
    picture = Picture(960, 470)
    picture.text(12, 22, "Simulated beside published times: error in percent, below 0 the simulation is too fast", kind="title")
    x = 12

    def legend(words, colour, shape):
        nonlocal x
        picture.parts.append(f'<path transform="translate({x + 6},44)" d="{MARKERS[shape]}" fill="{colour}"/>')
        picture.text(x + 16, 48.5, words)
        x += 40 + 8.2 * len(words)

    for name, colour in GENERATIONS.items():
        legend(name, colour, "circle")
    for name, shape in ALGORITHMS.items():
        legend(name, "#8892a6", shape)
    top, bottom, low, high = 92, 410, -75, 40
    panels = {"all-reduce": [row for row in rows if row["collective"] == "all_reduce"],
              "other collectives": [row for row in rows if row["collective"] != "all_reduce"]}

    def height(error):
        return bottom - (error - low) / (high - low) * (bottom - top)

    for panel, (name, here) in enumerate(panels.items()):
        left, right = 48 + 475 * panel, 48 + 475 * panel + 420
        picture.text((left + right) / 2, top - 12, name, "middle", "title")
        for tick in range(-60, 41, 20):
            picture.line(left, height(tick), right, height(tick), "grid" if tick else "one")
            picture.text(left - 6, height(tick) + 4.5, f"{tick:+d}" if tick else "0", "end")

        def place(count, left=left, right=right):
            return left + 12 + (int(count).bit_length() - 4) / 31 * (right - left - 24)  # 8 B to 16 GiB

        for octave in range(3, 35, 5):
            picture.line(place(1 << octave), top, place(1 << octave), bottom)
            picture.text(place(1 << octave), bottom + 18, size(1 << octave), "middle")
        picture.text((left + right) / 2, bottom + 40, "bytes", "middle", "about")
        for row in here:
            about = (f"{row['system']}, {row['ranks']} ranks, {row['collective']}, {row['algorithm']}, "
                     f"{size(int(row['bytes']))}: {row['error_percent']} %")
            at = f"translate({place(row['bytes']):.1f},{height(float(row['error_percent'])):.1f})"
            picture.parts.append(f'<path transform="{at}" d="{MARKERS[ALGORITHMS[row["algorithm"]]]}" '
                                 f'fill="{GENERATIONS[generation(row)]}" fill-opacity=".8"><title>{about}</title></path>')
    picture.write(path)


def print_matrix(rows):
    print("\n| median of the absolute errors | " + " | ".join(SIZES) + " |\n|---|" + "--:|" * len(SIZES))
    for name in GENERATIONS:
        cells = []
        for least, most in SIZES.values():
            errors = errors_of(row for row in rows if generation(row) == name and least <= int(row["bytes"]) <= most)
            cells.append(f"{statistics.median(errors):.1f} %" if errors else "")
        print(f"| {name} | " + " | ".join(cells) + " |")


def main(docs):
    rows, summary = parse(sys.stdin.read().splitlines())
    with open(docs / "notebook/simulator/published.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    draw(rows, docs / "pictures/simulator-published.svg")
    print("\n".join(summary))
    print_matrix(rows)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
