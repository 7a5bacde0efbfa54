"""`tutti plan` from Python."""

import json
import os
import pathlib

import pytest

import tutti

pytest.importorskip("tutti.parallel", exc_type=ImportError)
import tutti.parallel as tp  # noqa: E402

SOURCE = pathlib.Path(__file__).resolve().parents[4]
MODEL, HOST = SOURCE / "examples/models/llama3_405b.json", SOURCE / "topology/testdata/dgxh100.xml"


@pytest.fixture
def program():
    path = os.path.join(os.environ.get("TUTTI_BUILD", SOURCE / "build/release"), "tools/tutti")
    if not os.path.exists(path):
        pytest.skip("there is no program tutti")
    return path


def test_plan_and_its_picture(program, tmp_path):
    of_file = tp.plan(MODEL, HOST, 64, program=program, prices=True, top=3)
    of_dict = tp.plan(json.loads(MODEL.read_text(encoding="utf-8")), HOST, 64, program=program, prices=True, top=3)
    assert of_file.strategies == of_dict.strategies and len(of_file.strategies) == 3
    times = [one["step_s"] for one in of_file.strategies]
    assert times == sorted(times) and all(one["memory_gb"] < 80 for one in of_file.strategies)
    of_file.draw(str(tmp_path / "plan.svg"))
    assert (tmp_path / "plan.svg").read_text(encoding="utf-8").count(" GB</text>") == 3


def test_what_is_wrong_with_a_model_is_said(program):
    with pytest.raises(tutti.InvalidArgumentError, match='"hidden" is missing'):
        tp.plan({"layers": 3}, HOST, 1, program=program)
    with pytest.raises(tutti.InvalidUsageError, match="there is no program no_such_tutti"):
        tp.plan(MODEL, HOST, 1, program="no_such_tutti")
