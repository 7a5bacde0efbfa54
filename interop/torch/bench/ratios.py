"""Makes tables of bench.py's file: Tutti's time as a part of Gloo's, for each call, size and number of ranks.

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


def main():
    with open(sys.argv[1]) as file:
        about, *cells = map(json.loads, file)
    print(f"PyTorch {about['pytorch']}, {about['cores']} cores ({about['processor']}), {about['date']}, commit "
          f"{about['commit']}; medians of {about['repeats']} repeats; load {min(cell['load'] for cell in cells)} to "
          f"{max(cell['load'] for cell in cells)}\n")
    ratios = []
    for ranks in sorted({cell["ranks"] for cell in cells}):
        sizes = sorted({cell["bytes"] for cell in cells if cell["bytes"] is not None})
        print(f"| call, {ranks} ranks | " + " | ".join(map(size_of, sizes)) + " |")
        print("|---|" + "---|" * len(sizes))
        for call in dict.fromkeys(cell["call"] for cell in cells):
            row = []
            for size in [None] if call == "barrier" else sizes:
                for cell in cells:
                    if (cell["call"], cell["ranks"], cell["bytes"]) != (call, ranks, size):
                        continue
                    tutti = statistics.median(cell["us"]["tutti"])
                    if "gloo" in cell["us"]:
                        ratio = tutti / statistics.median(cell["us"]["gloo"])
                        ratios.append((ratio, call, ranks, size))
                        row.append(f"{ratio:.2f}")
                    else:
                        row.append(f"{tutti:.4g} us")
            print(f"| {call} | " + " | ".join(row + [""] * (len(sizes) - len(row))) + " |")
        print()
    worst = max(ratios, key=lambda one: one[0])
    print(f"{len(ratios)} cells: geometric mean {statistics.geometric_mean([one[0] for one in ratios]):.3f}, worst "
          f"{worst[0]:.2f} ({worst[1]}, {worst[2]} ranks, {size_of(worst[3]) if worst[3] else 'no size'}), above 1.0: "
          f"{sum(one[0] > 1 for one in ratios)}. A cell with microseconds: Gloo has no such call.")


if __name__ == "__main__":
    main()
