#!/usr/bin/env python3
"""Keeps results of the kit in the repository: docs/data/gpu/GPU/gpu_GROUP.json.

    scripts/gpu_kit/results.py keep RESULTS      adds what a run has written there
    scripts/gpu_kit/results.py settled           prints the keys of the steps that ended well (run.sh)

A step that ended well replaces older results of its name. A later failure stands beside it, as its "failed_since". The
other steps stay: a run leaves out what is settled.
"""
import json
import pathlib
import re
import sys
from collections import defaultdict

KEPT = pathlib.Path(__file__).resolve().parents[2] / "docs/data/gpu"
# The first results say these once for a group; now each step says them.
OF_THE_MACHINE = ("machine", "nvidia_smi", "architectures")


def steps_of(data):
    shared = {name: data[name] for name in OF_THE_MACHINE if name in data}
    return [dict(shared, **step) for step in data["steps"]]


def folder_of(step):
    """h100_80gb_hbm3, 8_h100_80gb_hbm3, or h100_80gb_hbm3_mig_1g_10gb."""
    names = step.get("gpus", "").split("\n")
    if not names[0]:
        sys.exit(f"{step['name']} names no GPU that CUDA showed")
    plain = re.sub("[^a-z0-9]+", "_", names[0].removeprefix("NVIDIA ").lower())
    return KEPT / ((f"{len(names)}_" if len(names) > 1 else "") + plain)


def newest(results):
    """What stays of the results of one step."""
    of_kind = {}
    for step in sorted(results, key=lambda each: each["date"]):
        kind = step["status"].split(":")[0]
        if kind == "ok":
            of_kind.pop("FAILED", None)
        of_kind[kind] = step
    if "ok" in of_kind and "FAILED" in of_kind:
        return dict(of_kind["ok"], failed_since=of_kind["FAILED"])
    return of_kind.get("ok") or of_kind.get("FAILED") or of_kind["left out"]


def keep(results):
    paths = sorted(pathlib.Path(results).glob("gpu_*.json"))
    if not paths:
        sys.exit(f"{results} has no results")
    new = defaultdict(list)
    for path in paths:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["rehearsal"]:
            sys.exit(f"{path} is of a rehearsal: it says nothing of a GPU")
        for step in steps_of(data):
            new[folder_of(step) / path.name, data["group"]].append(step)
    for (kept, group), steps in new.items():
        by_name = defaultdict(list)
        for step in (steps_of(json.loads(kept.read_text(encoding="utf-8"))) if kept.exists() else []) + steps:
            failed = step.pop("failed_since", None)
            by_name[step["name"]] += [step, failed] if failed else [step]
        kept.parent.mkdir(parents=True, exist_ok=True)
        data = {"gpu_kit": 2, "group": group, "rehearsal": False, "steps": [newest(each) for each in by_name.values()]}
        kept.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        print(f"{kept}: {len(by_name)} steps")


def settled():
    for path in KEPT.glob("*/gpu_*.json"):
        for step in json.loads(path.read_text(encoding="utf-8"))["steps"]:
            key = step.get("key")  # the first results have none
            if key and step["status"] == "ok" and step.get("failed_since", {}).get("key") != key:
                print(key)


if __name__ == "__main__":
    if sys.argv[1:] == ["settled"]:
        settled()
    elif len(sys.argv) == 3 and sys.argv[1] == "keep":
        keep(sys.argv[2])
    else:
        sys.exit(__doc__)
