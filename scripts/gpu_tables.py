#!/usr/bin/env python3
"""Prints the tables of docs/gpu.md, as Markdown, from what scripts/gpu_kit.sh brought back.

    scripts/gpu_tables.py gpu_correct.json gpu_measure.json gpu_compare.json [--rehearsal]

Any of the three files may be missing. A rehearsal measures nothing and is refused without --rehearsal. Predicted times
are those of docs/data/gpu_predicted_NAME.csv, if NAME is in the GPU's name.
"""
import csv
import json
import pathlib
import sys

DATA = pathlib.Path(__file__).resolve().parent.parent / "docs/data"

GB_PER_S = 1e3  # bytes per microsecond
KIB = 1024


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
        return "{median_us:.2f} ({least_median_us:.2f} - {greatest_median_us:.2f})".format(**result)
    return "refused" if result.get("refused") else "failed" if result.get("error") else "-"


def share(suite, bytes_moved, us):
    copy = suite.copy_gbs()
    gbs = bytes_moved / us / GB_PER_S
    return f"{gbs:.0f} | {100 * gbs / copy:.0f} %" if copy else f"{gbs:.0f} | -"


def least_traffic(record):
    """Bytes that a collective out of place at least reads and writes in one memory; None: not known."""
    ranks = record["ranks"]
    buffers = {"all_reduce": 2 * ranks, "all_to_all": 2 * ranks, "all_gather": 1 + ranks, "broadcast": 1 + ranks,
               "reduce_scatter": ranks + 1, "reduce": ranks + 1, "gather": 2, "scatter": 2}.get(record["collective"])
    return buffers and buffers * record["size"]


def about(suite):
    for call in suite.calls.values():
        data = call.data
        steps = data["steps"]
        yield (f"*{call.name}*: {data['date']}, commit {data['commit']}, kernels for sm_{data['architectures']}, "
               f"{sum(step['seconds'] for step in steps)} s, on {data['machine']}.")
        device = call.device()
        if device:
            major, minor = divmod(device["cuda_driver"], 1000)
            yield (f"{device['count']} x {device['name']} (sm_{device['compute_capability']}, {device['multiprocessors']} "
                   f"multiprocessors, {device['clock_mhz']:.0f} MHz, memory {device['memory_clock_mhz']:.0f} MHz), "
                   f"driver for CUDA {major}.{minor // 10}.")
    results = [step["result"] or {} for call in suite.calls.values() for step in call.steps.values()]
    for note in sorted({note for result in results for note in (result.get("about") or {}).values()}):
        yield f"Beside it: {note}."
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
    yield "| call | step | | passed | failed | skipped | s |"
    yield "|---|---|---|--:|--:|--:|--:|"
    for call in suite.calls.values():
        for step in call.steps.values():
            yield f"| {call.name} | {step['name']} | {step['status']} | {tests(step['result'] or {})} | {step['seconds']} |"


def bandwidth(suite):
    yield "| what | size | us (least - greatest) | GB/s, read + written | of the device's copy |"
    yield "|---|--:|--:|--:|--:|"
    for copy in suite.copies():
        yield f"| copy, by the driver | {size(copy['bytes'])} | {time(copy)} | {share(suite, 2 * copy['bytes'], copy['median_us'])} |"
    measure = suite.call("measure")
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
            yield (f"| {label} | {size(record['bytes'])} | {time(mine)} | "
                   f"{share(suite, (ranks + 1) * record['size'], mine['median_us'])} |")


def limits(suite):
    """What the GPU, its driver and its host give without Tutti."""
    step = suite.call("measure").steps.get("limits")
    if step and step["status"] == "ok":
        yield "```"
        yield from step["log"].strip().split("\n")
        yield "```"


def collectives(suite):
    yield "| collective | ranks | size | tutti (us) | predicted (us) | algorithm | nccl (us) | tutti / nccl | of the bound |"
    yield "|---|--:|--:|--:|--:|---|--:|--:|--:|"
    for call in suite.calls.values():
        for name in call.steps:
            if name == "one_rank_copy" or "_direct_" in name:
                continue
            for record in call.records(name):
                mine, theirs = found(record, "tutti"), found(record, "nccl")
                both = "median_us" in mine and "median_us" in theirs
                ratio = f"{mine['median_us'] / theirs['median_us']:.2f}" if both else "-"
                label = record["collective"] + (" in a graph" if name.startswith("graph_") else "")
                ranks = f"{record['ranks']}{' processes' if name.endswith('processes') else ''}"
                bound = "-"
                if "median_us" in mine and least_traffic(record) and suite.copy_gbs():
                    least = least_traffic(record) / GB_PER_S / suite.copy_gbs()
                    bound = f"{100 * least / mine['median_us']:.0f} %"
                # The host does not launch each call of a graph, as predictions assume.
                cell = (record["collective"], record["ranks"], record["bytes"])
                us = None if name.startswith("graph_") else suite.predicted.get(cell)
                guess = "-" if us is None else f"{us:.1f}"
                yield (f"| {label} | {ranks} | {size(record['bytes'])} | {time(mine)} | {guess} | {mine.get('algorithm', '-')} | "
                       f"{time(theirs)} | {ratio} | {bound} |")


def main(arguments):
    names = [argument for argument in arguments if argument != "--rehearsal"]
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
    for line in about(suite):
        print(line)
    for table in (bandwidth, limits, collectives, steps):
        print()
        for line in table(suite):
            print(line)


if __name__ == "__main__":
    main(sys.argv[1:])
