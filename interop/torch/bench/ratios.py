"""Makes tables of bench.py's file: Tutti's time as a part of another's, for each call, type, size and number of ranks.

    python3 interop/torch/bench/ratios.py FILE
"""

import json
import statistics
import sys


def size_of(bytes_):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if bytes_ >= unit:
            return f"{bytes_ // unit} {name}"
    return f"{bytes_} B"


def median(cell, of, key="us"):
    return statistics.median(cell[key][of])


def summary(cells, against, key):
    """A sentence on all cells' ratios; `against` gives a cell's name of the other."""
    ratios = [(median(cell, "tutti", key) / median(cell, against(cell), key), cell) for cell in cells]
    worst, cell = max(ratios, key=lambda one: one[0])
    size = size_of(cell["bytes"]) if cell["bytes"] else "no size"
    return (f"geometric mean {statistics.geometric_mean([one[0] for one in ratios]):.3f}, worst {worst:.2f} "
            f"({cell['call']}, {cell['ranks']} ranks, {cell['type']}, {size}), above 1.0: {sum(one[0] > 1 for one in ratios)}")


def table(cells, other):
    """Tables of Tutti's medians as parts of the other's; its microseconds where the other has no such call."""
    for ranks in sorted({cell["ranks"] for cell in cells}):
        of_ranks = [cell for cell in cells if cell["ranks"] == ranks]
        sizes = sorted({cell["bytes"] for cell in of_ranks if cell["bytes"] is not None})
        print(f"| call, {ranks} ranks, beside {other} | " + " | ".join(map(size_of, sizes)) + " |")
        print("|---|" + "---|" * len(sizes))
        rows = {}
        for cell in of_ranks:
            mine = median(cell, "tutti")
            shown = f"{mine / median(cell, other):.2f}" if other in cell["us"] else f"{mine:.4g} us"
            rows.setdefault((cell["call"], cell["type"]), {})[cell["bytes"]] = shown
        for (call, type_name), row in rows.items():
            shown = [row[None], *[""] * (len(sizes) - 1)] if None in row else [row.get(size, "") for size in sizes]
            print(f"| {call}, {type_name} | " + " | ".join(shown) + " |")
        print()


def main():
    with open(sys.argv[1]) as file:
        about, *cells = map(json.loads, file)
    print(f"PyTorch {about['pytorch']}, {about['cores']} cores ({about['processor']}), {about['date']}, commit "
          f"{about['commit']}; medians of {about['repeats']} repeats; load {min(cell['load'] for cell in cells)} to "
          f"{max(cell['load'] for cell in cells)}\n")
    others = [name for name in dict.fromkeys(name for cell in cells for name in cell["us"]) if name != "tutti"]
    for other in others:
        shared = [cell for cell in cells if other in cell["us"]]
        # Beside those that have one call only, its rows alone.
        table(cells if other == "gloo" else shared, other)
        for key, name in (("us", "mean"), ("p99_us", "99th percentile")):
            print(f"{name} of a call, {len(shared)} cells: {summary(shared, lambda _: other, key)}.\n")
    memories = [name for name in others if name != "gloo"]
    shared = [cell for cell in cells if any(name in cell["us"] for name in memories)]
    if len(memories) > 1:
        for key in ("us", "p99_us"):
            def best(cell, key=key):
                return min((name for name in memories if name in cell["us"]), key=lambda name: median(cell, name, key))
            print(f"the fastest of {', '.join(memories)} in each cell, {key}: {summary(shared, best, key)}.\n")


if __name__ == "__main__":
    main()
