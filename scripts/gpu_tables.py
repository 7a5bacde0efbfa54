#!/usr/bin/env python3
"""Prints the tables of docs/gpu.md, as Markdown, from the results of scripts/gpu.sh.

    scripts/gpu_tables.py RESULTS.json [--dry-run]

The results of a dry run measure nothing and are refused without --dry-run.
"""
import json
import sys

GB_PER_S = 1e3  # bytes per microsecond
KIB = 1024


def size(number):
    for unit in ("", "K", "M", "G"):
        if number < KIB or number % KIB:
            return f"{number}{unit}"
        number //= KIB
    return f"{number}T"


class Suite:
    def __init__(self, data):
        self.data = data
        self.parts = {part["name"]: part for part in data["parts"]}

    def result(self, name):
        part = self.parts.get(name)
        return part["result"] if part and part["result"] else {}

    def records(self, name):
        return self.result(name).get("results", [])

    def device(self):
        return self.result("device").get("device", {})

    def copy_gbs(self):
        """The device's best copy bandwidth in GB/s, counting bytes read and bytes written."""
        return max((copy["gbs"] for copy in self.result("device").get("copies", [])), default=0)


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


def about(suite):
    device = suite.device()
    yield f"Measured {suite.data['date']}, commit {suite.data['commit']}, in {suite.data['took_s']} s."
    if device:
        major, minor = divmod(device["cuda_driver"], 1000)
        yield (f"{device['count']} x {device['name']} (sm_{device['compute_capability']}, {device['multiprocessors']} "
               f"multiprocessors, {device['clock_mhz']:.0f} MHz, memory {device['memory_clock_mhz']:.0f} MHz), "
               f"driver for CUDA {major}.{minor // 10}.")
    notes = {result for part in suite.parts.values() for result in ((part["result"] or {}).get("about") or {}).values()}
    for note in sorted(notes):
        yield f"Beside it: {note}."
    refusals = {text.split("\n")[0] for part in suite.parts.values()
                for text in ((part["result"] or {}).get("refused") or {}).values()}
    for refusal in sorted(refusals):
        yield f"Refused: {refusal}"


def parts(suite):
    yield "| part | | s |"
    yield "|---|---|--:|"
    for part in suite.parts.values():
        yield f"| {part['name']} | {part['status']} | {part['seconds']} |"


def bandwidth(suite):
    yield "| what | size | us (least - greatest) | GB/s, read + written | of the device's copy |"
    yield "|---|--:|--:|--:|--:|"
    for copy in suite.result("device").get("copies", []):
        yield f"| copy, by the driver | {size(copy['bytes'])} | {time(copy)} | {share(suite, 2 * copy['bytes'], copy['median_us'])} |"
    for name, part in suite.parts.items():
        reduces = name.startswith(("reduce_scatter_direct_", "reduce_")) and name.split("_")[-1].isdigit()
        if name != "one_rank_copy" and (not reduces or name.startswith("reduce_scatter_") and "direct" not in name):
            continue
        for record in suite.records(name):
            mine = found(record, "tutti")
            if "median_us" not in mine:
                continue
            ranks = record["ranks"]
            label = "all-reduce of one rank" if name == "one_rank_copy" else f"{record['collective']}, {ranks} sources, direct"
            # Every source is read once and one result is written; a reduce-scatter's result has one part per rank.
            yield (f"| {label} | {size(record['bytes'])} | {time(mine)} | "
                   f"{share(suite, (ranks + 1) * record['size'], mine['median_us'])} |")


def collectives(suite):
    yield "| collective | ranks | size | tutti (us) | algorithm | nccl (us) | tutti / nccl | of the bound |"
    yield "|---|--:|--:|--:|---|--:|--:|--:|"
    measured = ("all_reduce", "reduce_scatter", "all_gather", "alltoall")
    for name in suite.parts:
        if name != "graph_2" and (not name.startswith(measured) or "direct" in name):
            continue
        for record in suite.records(name):
            mine, theirs = found(record, "tutti"), found(record, "nccl")
            both = "median_us" in mine and "median_us" in theirs
            ratio = f"{mine['median_us'] / theirs['median_us']:.2f}" if both else "-"
            label = record["collective"] + (" in a graph" if name == "graph_2" else "")
            ranks = f"{record['ranks']}{' processes' if name.endswith('processes') else ''}"
            bound = "-"
            if "median_us" in mine and record["collective"] == "all_reduce" and suite.copy_gbs():
                # Each rank's input is read once and each output written once, at the device's copy speed.
                least = 2 * record["ranks"] * record["size"] / GB_PER_S / suite.copy_gbs()
                bound = f"{100 * least / mine['median_us']:.0f} %"
            yield (f"| {label} | {ranks} | {size(record['bytes'])} | {time(mine)} | {mine.get('algorithm', '-')} | "
                   f"{time(theirs)} | {ratio} | {bound} |")


def main(arguments):
    names = [argument for argument in arguments if argument != "--dry-run"]
    if len(names) != 1:
        sys.exit(__doc__)
    with open(names[0], encoding="utf-8") as file:
        data = json.load(file)
    if data["dry_run"] and "--dry-run" not in arguments:
        sys.exit(f"{names[0]} is of a dry run: it says nothing of a GPU")
    suite = Suite(data)
    for line in about(suite):
        print(line)
    for table in (bandwidth, collectives, parts):
        print()
        for line in table(suite):
            print(line)


if __name__ == "__main__":
    main(sys.argv[1:])
