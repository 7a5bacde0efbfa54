"""Which split suits a model: `tutti plan`, from Python, and its answer as a picture."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from typing import Any, Mapping

from .._errors import InvalidArgumentError, InvalidUsageError
from ._svg import LINE, Svg

# The parts of a step's time, and their colours (of Okabe and Ito, who chose them for the colour-blind).
_PARTS = {"compute": "#8892a6", "tensor": "#d55e00", "experts": "#cc79a7", "context": "#009e73", "bubble": "#e69f00",
          "sends": "#56b4e9", "data": "#0072b2"}
_BAR, _MEMORY, _VALUE, _GAP, _THICK, _LETTER = 420, 140, 70, 14, 16, 7.6  # pixels


class Plan:
    """The fastest splits that fit, the fastest first: strategies is a list of dicts.

    strategy: the sizes tp, cp, pp, dp, ep, and chunks, zero, micro_batch, recompute; step_s: seconds of a step; parts_s:
    what they go into, of which all but compute is traffic and waiting; memory_gb: of the fullest GPU.
    """

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self.answer = answer
        self.strategies: list[dict[str, Any]] = list(answer["fastest"])

    def draw(self, path: str) -> None:
        """Writes an SVG picture: the time of a step and the memory of a GPU, for each of the splits."""
        names = [_named(one["strategy"]) for one in self.strategies]
        label = _LETTER * max(map(len, names)) + 2 * _GAP
        longest = max(one["step_s"] for one in self.strategies)
        fullest = max(one["memory_gb"] for one in self.strategies)
        picture = Svg()

        def bar(x: float, y: float, length: float, colour: str) -> None:
            picture.rectangle(x, y - _THICK / 2, length, _THICK, fill=colour)

        y = (_GAP + LINE) / 2
        picture.text(_GAP, y, f"{self.answer['model']} on {self.answer['gpus']} GPUs: seconds of a step, GB of the fullest GPU")
        x, y = float(_GAP), y + LINE
        for name, colour in _PARTS.items():
            bar(x, y, 12, colour)
            picture.text(x + 18, y, name)
            x += 34 + 9 * len(name)
        y += _GAP
        for named, one in zip(names, self.strategies):
            y += LINE
            picture.text(_GAP, y, named)
            x = label
            for name, colour in _PARTS.items():
                length = one["parts_s"][name] / longest * (_BAR - _VALUE)
                bar(x, y, length, colour)
                x += length
            picture.text(x + 6, y, f"{one['step_s']:.3g} s")
            x, length = label + _BAR + _GAP, one["memory_gb"] / fullest * (_MEMORY - _VALUE)
            bar(x, y, length, "#92c5de")
            picture.text(x + length + 6, y, f"{one['memory_gb']:.0f} GB")
        picture.write(path, label + _BAR + _GAP + _MEMORY + _GAP, y + LINE)


def _named(strategy: Mapping[str, Any]) -> str:
    """The sizes above 1, and what else differs: "tp 8  pp 16  dp 8  zero 1"."""
    words = [f"{axis} {strategy[axis]}" for axis in ("tp", "cp", "pp", "dp", "ep", "chunks") if strategy[axis] > 1]
    return "  ".join([*words, f"zero {strategy['zero']}", f"micro-batch {strategy['micro_batch']}",
                      *(["recompute"] if strategy["recompute"] else [])])


def plan(model: str | os.PathLike[str] | Mapping[str, Any], cluster: str | os.PathLike[str], nodes: int, *,
         program: str = "tutti", **options: Any) -> Plan:
    """The fastest ways to split a model's training over a cluster, as the program `tutti plan` finds them.

    model: a JSON file (examples/models in Tutti's source tree) or a dict of its fields: layers, hidden, heads, kv_heads, ffn,
    vocabulary, sequence, global_batch ... cluster: a host's topology as XML, of which there are `nodes`. options: those of
    `tutti plan`, with _ for -: most_tp=8, top=5, memory=80, prices=True. program: where `tutti` is.

    Raises InvalidArgumentError with the program's own sentence, InvalidUsageError where there is no such program.
    """
    command = [program, "plan", "--json"]
    for name, value in options.items():
        command += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        if isinstance(model, Mapping):
            json.dump(dict(model), file)
            file.flush()
            model = file.name
        command += ["--model", os.fspath(model), "--cluster", os.fspath(cluster), "x", str(nodes)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            raise InvalidUsageError(f"there is no program {program}: install Tutti's tools, or say where it is with "
                                    "program=") from error
    if done.returncode != 0:
        raise InvalidArgumentError(done.stderr.strip())
    return Plan(json.loads(done.stdout))
