#!/usr/bin/env python3
"""Prints the tables of docs/gpu.md and docs/notebook/gpu, as Markdown, from what scripts/gpu_kit.sh brought back.

    scripts/docs/gpu_tables.py [PART] gpu_correct.json gpu_measure.json gpu_compare.json [--rehearsal]

PART is one of --summary (docs/gpu.md), --tests, --results, --predictions (the notes); default: all. Any of the three files
may be missing. A rehearsal measures nothing and is refused without --rehearsal. Predicted times are those of
docs/notebook/gpu/gpu_predicted_NAME.csv, if NAME is in the GPU's name.
"""
import csv
import json
import pathlib
import re
import sys
from collections import defaultdict

DATA = pathlib.Path(__file__).resolve().parents[2] / "docs/notebook/gpu"

GB_PER_S = 1e3  # bytes per microsecond
KIB = 1024
MIB = 1024 * KIB
SMALL = 8          # bytes of a message whose time is the call's
LARGE = 256 * MIB  # of one whose time is the memory's
LARGEST = 1024 * MIB
FLAT = {64, 256, 512, 32 * KIB}  # sizes that take as long as their neighbours: the tables leave them out
WIDE = 1.5
SHOWN = {("all_reduce in a graph", ranks, 8) for ranks in ("2", "4", "8")}  # in the summary: label, ranks, bytes
SHOWN |= {("all_reduce", ranks, number) for ranks in ("2", "8") for number in (8, 8 * MIB, 256 * MIB)}
SHOWN |= {("all_reduce", "2 processes", 8)}


def size(number):
    for unit in ("", "K", "M", "G"):
        if number < KIB or number % KIB:
            return f"{number}{unit}"
        number //= KIB
    return f"{number}T"


class Call:
    """What one call of the kit saw."""

    def __init__(self, data):
        self.data = data
        self.name = data["call"]
        self.steps = {step["name"]: step for step in data["steps"]}

    def result(self, name):
        step = self.steps.get(name)
        return step["result"] if step and step["result"] else {}

    def records(self, name):
        # Measurements of earlier versions have nccl-tests' names.
        present = {"alltoall": "all_to_all", "alltoallv": "all_to_all_v", "sendrecv": "send_recv"}
        return [dict(record, collective=present.get(record["collective"], record["collective"]))
                for record in self.result(name).get("results", [])]

    def device(self):
        return self.result("device").get("device", {})


def predicted(gpu):
    """Predicted microseconds by collective, ranks and bytes."""
    for path in DATA.glob("gpu_predicted_*.csv"):
        if path.stem.removeprefix("gpu_predicted_") not in gpu.lower():
            continue
        with open(path, encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        return {(row["collective"], int(row["ranks"]), int(row["bytes"])): float(row["us"])
                for row in rows}
    return {}


class Suite:
    def __init__(self, calls):
        self.calls = {call.name: call for call in calls}
        names = [call.device().get("name", "") for call in calls]
        self.predicted = predicted(next((name for name in names if name), ""))

    def call(self, name):
        return self.calls.get(name, Call({"call": name, "steps": []}))

    def copies(self):
        """The driver's copies: those that were timed for longest."""
        for name in ("measure", "correct"):
            copies = self.call(name).result("device").get("copies", [])
            if copies:
                return copies
        return []

    def copy_gbs(self):
        """GB/s of the longest copy, which no cache holds, counting bytes read and bytes written."""
        longest = max(self.copies(), key=lambda copy: copy["bytes"], default={"gbs": 0})
        return longest["gbs"]


def found(record, library):
    for result in record["results"]:
        if result["library"] == library:
            return result
    return {}


def time(result):
    if "median_us" in result:
        return f"{result['median_us']:.2f}"
    return "refused" if result.get("refused") else "failed" if result.get("error") else "-"


def grid(names, rows):
    """A table of rows ((cell, ...), {size: text}): the columns `names`, then one for each size."""
    columns = sorted({column for _, cells in rows for column in cells})
    yield f"| {' | '.join([*names, *map(size, columns)])} |"
    yield f"|---{'|--:' * (len(names) + len(columns) - 1)}|"
    for heads, cells in rows:
        yield f"| {' | '.join([*heads, *(cells.get(column, '-') for column in columns)])} |"


def least_traffic(record):
    """Bytes that a collective out of place at least reads and writes in one memory; None: not known."""
    ranks = record["ranks"]
    buffers = {"all_reduce": 2 * ranks, "all_to_all": 2 * ranks, "all_gather": 1 + ranks, "broadcast": 1 + ranks,
               "reduce_scatter": ranks + 1, "reduce": ranks + 1, "gather": 2, "scatter": 2}.get(record["collective"])
    return buffers and buffers * record["size"]


def about(suite):
    machines = []
    for call in suite.calls.values():
        data = call.data
        yield (f"*{call.name}*: {data['date']}, commit {data['commit']}, kernels for sm_{data['architectures']}, "
               f"{sum(step['seconds'] for step in data['steps'])} s.")
        machines.append(f"On {data['machine']}.")
        device = call.device()
        if device:
            major, minor = divmod(device["cuda_driver"], 1000)
            machines.append(f"{device['count']} x {device['name']} (sm_{device['compute_capability']}, "
                            f"{device['multiprocessors']} multiprocessors, {device['clock_mhz']:.0f} MHz, memory "
                            f"{device['memory_clock_mhz']:.0f} MHz), driver for CUDA {major}.{minor // 10}.")
    yield from dict.fromkeys(machines)
    results = [step["result"] or {} for call in suite.calls.values() for step in call.steps.values()]
    for note in sorted({note for result in results for note in (result.get("about") or {}).values()}):
        yield f"Beside it: {re.sub(' of /[^;]*', '', note)}."  # where the library lay says nothing to a reader
    for refusal in sorted({text.split("\n")[0] for result in results for text in (result.get("refused") or {}).values()}):
        yield f"Refused: {refusal}"


def tests(result):
    """How many tests of a step passed, failed and were skipped."""
    passed = failed = skipped = 0
    for suite in result.get("testsuites", []):
        for test in suite["testsuite"]:
            if test["result"] == "SKIPPED":
                skipped += 1
            elif test.get("failures"):
                failed += 1
            else:
                passed += 1
    return f"{passed} | {failed} | {skipped}" if passed + failed + skipped else "| |"


def steps(suite):
    """Steps that have tests or failed, and how the others ended."""
    for call in suite.calls.values():
        well = sum(step["status"] == "ok" for step in call.steps.values())
        left_out = defaultdict(list)
        for step in call.steps.values():
            if step["status"].startswith("left out"):
                left_out[step["status"]].append(step["name"])
        yield "; ".join([f"- *{call.name}*: {well} of {len(call.steps)} steps ended well",
                         *(f"{why} for {', '.join(names)}" for why, names in left_out.items())]) + "."
    yield ""
    yield "| call | step | | passed | failed | skipped | s |"
    yield "|---|---|---|--:|--:|--:|--:|"
    for call in suite.calls.values():
        for step in call.steps.values():
            counted = tests(step["result"] or {})
            if step["status"].startswith("FAILED") or counted != "| |":
                yield f"| {call.name} | {step['name']} | {step['status']} | {counted} | {step['seconds']} |"


def bandwidth(suite):
    measure = suite.call("measure")
    gbs = {"copy, by the driver": {copy["bytes"]: copy["gbs"] for copy in suite.copies()}}
    for name in measure.steps:
        if name != "one_rank_copy" and "_direct_" not in name:
            continue
        for record in measure.records(name):
            mine = found(record, "tutti")
            if "median_us" not in mine:
                continue
            ranks = record["ranks"]
            label = "all-reduce of one rank" if name == "one_rank_copy" else f"{record['collective']}, {ranks} sources, direct"
            # Every source is read once and one result is written; a reduce-scatter's result has one part per rank.
            moved = (ranks + 1) * record["size"]
            gbs.setdefault(label, {})[record["bytes"]] = moved / mine["median_us"] / GB_PER_S
    yield "GB/s, read and written, of messages of so many bytes:"
    yield ""
    yield from grid(["what"], [((label,), {number: f"{value:.0f}" for number, value in cells.items()})
                              for label, cells in gbs.items()])


def limits(suite):
    """What the GPU, its driver and its host give without Tutti."""
    step = suite.call("measure").steps.get("limits")
    if step and step["status"] == "ok":
        yield "```"
        yield from step["log"].strip().split("\n")
        yield "```"


def measurements(call):
    """(collective, ranks, record) of all measured collectives."""
    for name in call.steps:
        if name == "one_rank_copy" or "_direct_" in name:
            continue
        for record in call.records(name):
            label = record["collective"] + (" in a graph" if name.startswith("graph_") else "")
            yield label, f"{record['ranks']}{' processes' if name.endswith('processes') else ''}", record


def by_sizes(rows):
    """Rows {heads: {column: text}} as tables, one for all rows with the same columns."""
    tables = defaultdict(list)
    for heads, cells in rows.items():
        tables[tuple(sorted(cells))].append((heads, cells))
    return tables.values()


def ratio(record):
    mine, theirs = found(record, "tutti"), found(record, "nccl")
    return f"{mine['median_us'] / theirs['median_us']:.2f}" if "median_us" in mine and "median_us" in theirs else "-"


def compared(suite):
    rows = defaultdict(dict)
    for label, ranks, record in measurements(suite.call("compare")):
        if record["bytes"] in FLAT:
            continue
        for library in ("tutti", "nccl"):
            rows[label, ranks, f"{library} (us)"][record["bytes"]] = time(found(record, library))
        rows[label, ranks, "tutti / nccl"][record["bytes"]] = ratio(record)
    for table in by_sizes(rows):
        yield ""
        yield from grid(["collective", "ranks", "what"], table)


def algorithms(suite):
    """Which algorithms ran: the one of most cells, and where another one ran."""
    cells = defaultdict(lambda: defaultdict(list))
    for call in suite.calls.values():
        for label, ranks, record in measurements(call):
            if "algorithm" in found(record, "tutti"):
                cells[found(record, "tutti")["algorithm"]][f"{label} by {ranks}"].append(size(record["bytes"]))
    usual = max(cells, key=lambda algorithm: sum(map(len, cells[algorithm].values())), default=None)
    if usual:
        others = []
        for name, at in cells.items():
            places = [f"{where} ({' and '.join(dict.fromkeys(sizes))})" for where, sizes in at.items()]
            others += [f"{name} for {', '.join(places)}"] if name != usual else []
        yield f"Algorithm: {usual}" + (f"; but {'; '.join(others)}." if others else ".")


def spread(suite):
    """How many times differ much from one repetition to the next."""
    results = [found(record, "tutti") for call in suite.calls.values() for _, _, record in measurements(call)]
    results = [result for result in results if "median_us" in result]
    wide = sum(result["greatest_median_us"] > WIDE * result["least_median_us"] for result in results)
    yield (f"Times are medians. In {wide} of {len(results)} of Tutti's cells, the greatest median of the repetitions is more "
           f"than {WIDE} times the least.")


def measured(suite):
    """Times of Tutti, and the shares of the bound that the largest messages reach."""
    times, shares = defaultdict(dict), defaultdict(dict)
    for label, ranks, record in measurements(suite.call("measure")):
        mine = found(record, "tutti")
        if record["bytes"] not in FLAT:
            times[label, ranks][record["bytes"]] = time(mine)
        if record["bytes"] == LARGEST and "median_us" in mine and least_traffic(record) and suite.copy_gbs():
            least = least_traffic(record) / GB_PER_S / suite.copy_gbs()
            shares[label,][record["ranks"]] = f"{100 * least / mine['median_us']:.0f}"
    yield "Times (us):"
    for table in by_sizes(times):
        yield ""
        yield from grid(["collective", "ranks"], table)
    if shares:
        yield ""
        yield f"Shares of the bound (%) that {size(LARGEST)} reaches, by the number of ranks:"
        yield ""
        yield from grid(["collective"], list(shares.items()))


def predictions(suite):
    """Measured times over predicted ones."""
    rows = defaultdict(dict)
    for label, ranks, record in measurements(suite.call("measure")):
        us = suite.predicted.get((label, record["ranks"], record["bytes"]))
        mine = found(record, "tutti")
        # Predictions are of ranks in one process, and the host launches each call.
        if us and "median_us" in mine and ranks.isdigit() and (record["bytes"] <= SMALL or record["bytes"] >= LARGE):
            rows[label, ranks][record["bytes"]] = f"{mine['median_us'] / us:.2f}"
    yield from grid(["collective", "ranks"], list(rows.items()))


def summary(suite):
    """The few times that docs/gpu.md shows."""
    call = suite.call("compare")
    yield "| collective | ranks | size | Tutti (us) | NCCL (us) | Tutti / NCCL |"
    yield "|---|---|--:|--:|--:|--:|"
    for label, ranks, record in measurements(call):
        if (label, ranks, record["bytes"]) in SHOWN:
            mine, theirs = time(found(record, "tutti")), time(found(record, "nccl"))
            yield f"| {label} | {ranks} | {size(record['bytes'])} | {mine} | {theirs} | {ratio(record)} |"


PARTS = {"--summary": [summary], "--tests": [about, steps],
         "--results": [about, bandwidth, limits, compared, measured, algorithms, spread], "--predictions": [predictions]}


def main(arguments):
    names = [argument for argument in arguments if not argument.startswith("--")]
    wanted = [argument for argument in arguments if argument in PARTS] or list(PARTS)
    if not names:
        sys.exit(__doc__)
    calls = []
    for name in names:
        with open(name, encoding="utf-8") as file:
            data = json.load(file)
        if data["rehearsal"] and "--rehearsal" not in arguments:
            sys.exit(f"{name} is of a rehearsal: it says nothing of a GPU")
        calls.append(Call(data))
    suite = Suite(calls)
    lines = []
    for part in dict.fromkeys(part for name in wanted for part in PARTS[name]):
        lines.append("\n".join(part(suite)).strip("\n"))
    print("\n\n".join(line for line in lines if line))


if __name__ == "__main__":
    main(sys.argv[1:])
