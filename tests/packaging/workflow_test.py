"""Checks .github/workflows: each file is YAML, and its steps call scripts of this tree, with options that they have, or one of
the actions that fetch the tree and keep files.

    workflow_test.py SOURCE_DIR        status 77: there is no PyYAML
"""
import os
import pathlib
import re
import sys

try:
    import yaml
except ImportError:
    print("skipped: there is no PyYAML (Debian: python3-yaml)")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "doc_blocks"))
import commands  # noqa: E402

ACTION = re.compile(r"actions/(checkout|upload-artifact)@v\d+")


def check(workflow: dict, source: pathlib.Path) -> list[str]:
    """What is wrong with a workflow, a sentence each."""
    wrong = []
    jobs = workflow["jobs"]
    for name, job in jobs.items():
        needed = job.get("needs", [])
        for other in [needed] if isinstance(needed, str) else needed:
            if other not in jobs:
                wrong.append(f"{name} needs {other}, which is no job")
        for step in job["steps"]:
            run = step.get("run", "")
            if ACTION.fullmatch(step.get("uses", "")) and not run:
                continue
            if not re.fullmatch(r"scripts/[\w/]+\.sh( [\w. -]+)?", run):
                wrong.append(f"{name}: this step is not one call of a script: {step}")
                continue
            try:
                commands.check(run, source, source)
            except commands.Unknown as unknown:
                wrong.append(f"{name}: {unknown}")
            else:
                if not os.access(source / run.split()[0], os.X_OK):
                    wrong.append(f"{name}: {run.split()[0]} cannot be executed")
    return wrong


def main() -> int:
    source = pathlib.Path(sys.argv[1])
    files = sorted((source / ".github/workflows").glob("*.yml"))
    wrong = [] if files else [f"there is no workflow in {source}"]
    for file in files:
        wrong += [f"{file.name}: {sentence}" for sentence in check(yaml.safe_load(file.read_text(encoding="utf-8")), source)]
    # The check itself sees what it must.
    for run in ("scripts/nothing.sh", "scripts/test.sh --no-such-option", "make", "scripts/test.sh && make"):
        if not check({"jobs": {"one": {"steps": [{"run": run}]}}}, source):
            wrong.append(f"a step that runs {run} is not found to be wrong")
    print("\n".join(wrong) or f"{len(files)} workflow: its steps call scripts of this tree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
