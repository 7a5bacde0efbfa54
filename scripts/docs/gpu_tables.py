#!/usr/bin/env python3
"""Prints tables from what scripts/gpu_kit.sh brought back, for one kind of GPU.

    scripts/docs/gpu_tables.py PART docs/data/gpu/GPU/gpu_*.json [--rehearsal]

PART is one of --tests, --results, --predictions (Markdown for docs/notebook/gpu), --bandwidth and --latency (CSV for the
folder of the files: messages from 64 KiB on, and shorter ones). A rehearsal measures nothing and is refused without
--rehearsal. Predicted times are those of docs/notebook/gpu/gpu_predicted_NAME.csv, if NAME is in the GPU's name.
"""
import csv
import json
import pathlib
import re
import sys
from collections import defaultdict

NOTES = pathlib.Path(__file__).resolve().parents[2] / "docs/notebook/gpu"

GB_PER_S = 1e3  # bytes per microsecond
KIB = 1024
MIB = 1024 * KIB
SMALL = 8          # bytes of a message whose time is the call's
LARGE = 256 * MIB  # of one whose time is the memory's
LARGEST = 1024 * MIB
WIDE = 1.5
LONG = 64 * KIB  # bytes from which on a message's time tells a bandwidth


def size(number):
    for unit in ("", "K", "M", "G"):
        if number < KIB or number % KIB:
            return f"{number}{unit}"
        number //= KIB
    return f"{number}T"


class Group:
    """What the steps of one group saw."""

    def __init__(self, data):
        self.name = data["group"]
        # The first results say once for a group where its steps ran.
        shared = {name: data[name] for name in ("machine", "architectures") if name in data}
        self.steps = {step["name"]: dict(shared, **step) for step in data["steps"]}

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
    for path in NOTES.glob("gpu_predicted_*.csv"):
        if path.stem.removeprefix("gpu_predicted_") not in gpu.lower():
            continue
        with open(path, encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        return {(row["collective"], int(row["ranks"]), int(row["bytes"])): float(row["us"])
                for row in rows}
    return {}


class Suite:
    def __init__(self, groups):
        self.groups = {group.name: group for group in groups}
        self.gpu = next((group.device()["name"] for group in groups if group.device()), "")
        self.predicted = predicted(self.gpu)

    def group(self, name):
        return self.groups.get(name, Group({"group": name, "steps": []}))

    def copies(self):
        """The driver's copies: those that were timed for longest."""
        for name in ("measure", "correct"):
            copies = self.group(name).result("device").get("copies", [])
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
    for group in suite.groups.values():
        of_steps = group.steps.values()
        dates = sorted(step["date"] for step in of_steps)
        commits, architectures = (", ".join(dict.fromkeys(step[name] for step in of_steps)) for name in ("commit", "architectures"))
        yield (f"*{group.name}*: {' to '.join(dict.fromkeys([dates[0], dates[-1]]))}, commit {commits}, kernels for "
               f"sm_{architectures}, {sum(step['seconds'] for step in of_steps)} s.")
        machines += [f"On {step['machine']}." for step in of_steps]
        device = group.device()
        if device:
            major, minor = divmod(device["cuda_driver"], 1000)
            machines.append(f"{device['count']} x {device['name']} (sm_{device['compute_capability']}, "
                            f"{device['multiprocessors']} multiprocessors, {device['clock_mhz']:.0f} MHz, memory "
                            f"{device['memory_clock_mhz']:.0f} MHz), driver for CUDA {major}.{minor // 10}.")
    yield from dict.fromkeys(machines)
    results = [step["result"] or {} for group in suite.groups.values() for step in group.steps.values()]
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
    for group in suite.groups.values():
        well = sum(step["status"] == "ok" for step in group.steps.values())
        left_out = defaultdict(list)
        for step in group.steps.values():
            if step["status"].startswith("left out"):
                left_out[step["status"]].append(step["name"])
        yield "; ".join([f"- *{group.name}*: {well} of {len(group.steps)} steps ended well",
                         *(f"{why} for {', '.join(names)}" for why, names in left_out.items())]) + "."
    yield ""
    yield "| group | step | | passed | failed | skipped | s |"
    yield "|---|---|---|--:|--:|--:|--:|"
    for group in suite.groups.values():
        for step in group.steps.values():
            for run in (step, step.get("failed_since")):
                counted = tests(run["result"] or {}) if run else "| |"
                if counted != "| |" or run and run["status"].startswith("FAILED"):
                    yield f"| {group.name} | {step['name']} | {run['status']} | {counted} | {run['seconds']} |"


def bandwidth(suite):
    measure = suite.group("measure")
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
    measured_once = {"limits": suite.group("measure").steps.get("limits")}  # the first results have it there
    lines = [line for step in (measured_once | suite.group("probes").steps).values() if step and step["status"] == "ok"
             for line in step["log"].strip().split("\n")]
    if lines:
        yield from ["```", *lines, "```"]


def measurements(group):
    """(collective, ranks, record) of the collectives that a group measured as they usually run."""
    for name in group.steps:
        if name == "one_rank_copy" or "_direct_" in name:
            continue
        for record in group.records(name):
            label = record["collective"] + (" in a graph" if name.startswith("graph_") else "")
            yield label, f"{record['ranks']}{' processes' if name.endswith('processes') else ''}", record


def cells(suite, wanted, more):
    """A CSV of all measured cells whose number of bytes is wanted, and `more` columns: its bandwidth."""
    steps_of = [step for group in suite.groups.values() for step in group.steps.values()]
    yield (f"# {suite.gpu}, commit {', '.join(dict.fromkeys(step['commit'] for step in steps_of))}, "
           f"{max(step['date'] for step in steps_of)}")
    yield "# Medians in microseconds; bus bandwidth in GB/s, by nccl-tests' formulas"
    yield ",".join(["group,step,collective,ranks,bytes,algorithm,tutti_us,nccl_us", *more])
    for group in suite.groups.values():
        for name in group.steps:
            for record in group.records(name):
                if wanted(record["bytes"]):
                    both = found(record, "tutti"), found(record, "nccl")
                    yield ",".join([group.name, name, record["collective"], str(record["ranks"]), str(record["bytes"]),
                                    both[0].get("algorithm", ""), *(time(each) if each else "" for each in both),
                                    *(f"{each['busbw_gbs']:.4g}" if "busbw_gbs" in each else "" for each in both if more)])


def bandwidth_cells(suite):
    return cells(suite, lambda number: number >= LONG, ("tutti_gbs", "nccl_gbs"))


def latency_cells(suite):
    return cells(suite, lambda number: number < LONG, ())


def algorithms(suite):
    """Which algorithms ran: the one of most cells, and where another one ran."""
    cells = defaultdict(lambda: defaultdict(list))
    for name in ("compare", "measure"):
        for label, ranks, record in measurements(suite.group(name)):
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
    results = [found(record, "tutti") for group in suite.groups.values() for _, _, record in measurements(group)]
    results = [result for result in results if "median_us" in result]
    wide = sum(result["greatest_median_us"] > WIDE * result["least_median_us"] for result in results)
    yield (f"Times are medians. In {wide} of {len(results)} of Tutti's cells, the greatest median of the repetitions is more "
           f"than {WIDE} times the least.")


def shares_of_bound(suite):
    """The shares of the bound that the largest messages reach."""
    shares = defaultdict(dict)
    for _, _, record in measurements(suite.group("measure")):
        mine = found(record, "tutti")
        if record["bytes"] == LARGEST and "median_us" in mine and least_traffic(record) and suite.copy_gbs():
            least = least_traffic(record) / GB_PER_S / suite.copy_gbs()
            shares[record["collective"],][record["ranks"]] = f"{100 * least / mine['median_us']:.0f}"
    if shares:
        yield f"Shares of the bound (%) that {size(LARGEST)} reaches, by the number of ranks:"
        yield ""
        yield from grid(["collective"], list(shares.items()))


def predictions(suite):
    """Measured times over predicted ones."""
    rows = defaultdict(dict)
    for label, ranks, record in measurements(suite.group("measure")):
        us = suite.predicted.get((label, record["ranks"], record["bytes"]))
        mine = found(record, "tutti")
        # Predictions are of ranks in one process, and the host launches each call.
        if us and "median_us" in mine and ranks.isdigit() and (record["bytes"] <= SMALL or record["bytes"] >= LARGE):
            rows[label, ranks][record["bytes"]] = f"{mine['median_us'] / us:.2f}"
    yield from grid(["collective", "ranks"], list(rows.items()))


PARTS = {"--tests": [about, steps], "--results": [about, bandwidth, limits, shares_of_bound, algorithms, spread],
         "--predictions": [predictions], "--bandwidth": [bandwidth_cells], "--latency": [latency_cells]}


def main(arguments):
    names = [argument for argument in arguments if not argument.startswith("--")]
    wanted = [argument for argument in arguments if argument in PARTS]
    if not names or len(wanted) != 1:
        sys.exit(__doc__)
    groups = []
    for name in names:
        with open(name, encoding="utf-8") as file:
            data = json.load(file)
        if data["rehearsal"] and "--rehearsal" not in arguments:
            sys.exit(f"{name} is of a rehearsal: it says nothing of a GPU")
        groups.append(Group(data))
    suite = Suite(groups)
    lines = ["\n".join(part(suite)).strip("\n") for part in PARTS[wanted[0]]]
    print("\n\n".join(line for line in lines if line))


if __name__ == "__main__":
    main(sys.argv[1:])
