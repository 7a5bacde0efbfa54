"""Runs vLLM's engine over Tutti and over what vLLM has itself, and compares what they generate (docs/vllm.md).

    suite.py FOLDER [--measure] [--only ENGINE]...

FOLDER gets the model, each engine's output and results.json. Prints a line for each engine and exits with 1 unless, for each,
the tokens are those that they are compared with; and for a worker that is killed, the engine ends and Tutti's sentence names
the rank. --measure: then prints tokens a second of Tutti and of vLLM's own means, which take turns. --only: other engines'
results are those of the last run.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
LIMIT = 1800  # seconds for an engine: half a minute on an idle machine, most of it for importing vLLM
CANNOT = 77  # exit status of cluster.sh

# name, ranks, hosts, type, the platform plug-in, options of generate.py, the engine that must have generated the same tokens
ENGINES = [
    ("one rank", 1, 1, "float32", "none", [], None),
    ("Tutti, 2 ranks", 2, 1, "float32", "tutti", [], "one rank"),
    ("shared memory, 2 ranks", 2, 1, "float32", "none", [], "one rank"),
    ("Tutti, 4 ranks", 4, 1, "float32", "tutti", [], "one rank"),
    ("shared memory, 4 ranks", 4, 1, "float32", "none", [], "one rank"),
    ("Tutti, 2 hosts", 2, 2, "float32", "tutti", [], "one rank"),
    ("Gloo, 2 hosts", 2, 2, "float32", "none", [], "one rank"),
    ("Tutti, 2 ranks, bfloat16", 2, 1, "bfloat16", "tutti", [], None),
    ("shared memory, 2 ranks, bfloat16", 2, 1, "bfloat16", "none", [], "Tutti, 2 ranks, bfloat16"),
    ("Tutti, 2 ranks, compiled", 2, 1, "float32", "tutti", ["--compile"], "one rank"),
    ("Tutti, rank 1 of 2 is killed", 2, 1, "float32", "tutti", ["--kill", "1"], "one rank"),
]
# ranks, hosts, the plug-in beside Tutti's; "none" is vLLM's shared memory on one host, and Gloo between hosts
MEASURED = [(2, 1, "none"), (2, 1, "gloo"), (4, 1, "none"), (4, 1, "gloo"), (2, 2, "none")]
BACKEND = re.compile(r"distributed_init_method=\S+ backend=(\w+)")  # as vLLM's workers log it
SENTENCE = re.compile(r"tutti: .*rank 1 \(host [^)]*\).*", re.MULTILINE)


# A platform that differs from Tutti's in its backend, because vLLM takes Gloo on one host only where it lacks shared memory.
GLOO_PLATFORM = {
    "gloo_platform.py": """
from tutti_torch import vllm_platform
class Platform(vllm_platform.Platform):
    dist_backend = "gloo"
def name():
    return "gloo_platform.Platform"
""",
    "gloo_platform-0.dist-info/METADATA": "Metadata-Version: 2.1\nName: gloo-platform\nVersion: 0\n",
    "gloo_platform-0.dist-info/entry_points.txt": "[vllm.platform_plugins]\ngloo = gloo_platform:name\n",
}


def environment(plugin):
    wanted = dict(os.environ, OMP_NUM_THREADS="1", VLLM_CPU_OMP_THREADS_BIND="nobind", HF_HUB_OFFLINE="1",
                  VLLM_NO_USAGE_STATS="1", VLLM_PLUGINS=plugin)
    wanted.pop("VLLM_TARGET_DEVICE", None)  # it makes vLLM look for no platform
    return wanted


def started(log, plugin, arguments, hosts=1, **more):
    start = [sys.executable, HERE / "generate.py"] if hosts == 1 else [HERE / "hosts.sh", sys.executable, str(hosts)]
    with open(log, "w") as output:  # a session of its own, so that what the engine starts can be ended with it
        return subprocess.Popen([*start, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=output,
                                stderr=subprocess.STDOUT, env=environment(plugin) | more, start_new_session=True)


def result_of(engine, log):
    """What the engine printed as its result, and Tutti's sentence; None if this machine cannot run it."""
    try:
        if engine.wait(LIMIT) == CANNOT:
            return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(engine.pid, signal.SIGKILL)
    text = log.read_text()
    lines = [line for line in text.splitlines() if line.startswith('{"tokens"')]
    assert lines, f"no result, exit status {engine.returncode}; its output is in {log}"
    sentence = SENTENCE.search(text)
    return json.loads(lines[-1]) | {"backend": BACKEND.search(text)[1], "sentence": sentence and sentence.group()}


def compare(result, other):
    """What is wrong, or None; and the largest difference of logits before tokens differ."""
    largest = 0
    for tokens, logits, other_tokens, other_logits in zip(result["tokens"], result["logits"], other["tokens"], other["logits"]):
        largest = max([largest, *(abs(one - two) for one, two in zip(logits, other_logits))])
        if tokens != other_tokens:
            return f"other tokens: {tokens} instead of {other_tokens}", largest
    return None, largest


def measure(folder, ranks, hosts, other):
    """Tokens a second of engines over Tutti and over `other`, a plugin, in turn; None if this machine cannot run them."""
    for name, text in GLOO_PLATFORM.items():
        path = folder / "gloo" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    turns = folder / "turns"
    turns.unlink(missing_ok=True)
    logs = {plugin: folder / f"rate_{plugin}.log" for plugin in ("tutti", other)}
    arguments = [folder / "model", ranks, "bfloat16", "--turns", turns, len(logs)]
    gloo = str(folder / "gloo")
    engines = {plugin: started(log, plugin, arguments, hosts, PYTHONPATH=gloo) for plugin, log in logs.items()}
    results = {plugin: result_of(engine, logs[plugin]) for plugin, engine in engines.items()}
    return None if None in results.values() else {plugin: result["rate"] for plugin, result in results.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--only", action="append", default=[])
    asked = parser.parse_args()
    folder = asked.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "model").exists():
        subprocess.run([sys.executable, HERE / "model.py", folder / "model"], check=True)
    kept = folder / "results.json"
    results = json.loads(kept.read_text()) if asked.only and kept.exists() else {}
    failures = 0
    for name, ranks, hosts, dtype, plugin, options, other in ENGINES:
        if asked.only and name not in asked.only:
            continue
        log = folder / f"{re.sub('[^a-z0-9]+', '_', name.lower())}.log"
        try:
            result = result_of(started(log, plugin, [folder / "model", ranks, dtype, *options], hosts), log)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            print(f"FAILED: {name}: {error}", flush=True)
            failures += 1
            continue
        if result is None:
            print(f"skipped: {name}: this machine cannot run a cluster of namespaces", flush=True)
            continue
        results[name] = result
        kept.write_text(json.dumps(results))
        wrong, words = None, ""
        if other is not None:
            wrong, largest = compare(result, results[other]) if other in results else (f"\"{other}\" has no result", 0)
            words = f"; the tokens of \"{other}\", logits within {largest:.2g}"
        if result["backend"] != {"none": "gloo"}.get(plugin, plugin):
            wrong = f"the backend is {result['backend']}"
        if "--kill" in options:
            words += f"; {result['error']}; {result['sentence']}"
            if not result["sentence"]:
                wrong = "no sentence of Tutti's"
        print(f"{'FAILED' if wrong else 'passed'}: {name}: {wrong or format(result['rate'], '.1f') + ' tokens/s' + words}",
              flush=True)
        failures += wrong is not None
    for ranks, hosts, other in MEASURED if asked.measure else ():
        rates = measure(folder, ranks, hosts, other)
        print(f"tokens a second, {ranks} ranks on {hosts} hosts, bfloat16, in turn: {rates}", flush=True)
    sys.exit(1 if failures else 0)


main()
