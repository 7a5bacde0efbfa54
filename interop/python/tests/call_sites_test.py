"""Messages and dumps name the line of the user's code that made each rank's call."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

import ranks
import tutti


def site(mark, function):
    """The words for the line of this file that ends with the comment `mark`."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"  # {mark}")]
    return f"call_sites_test.py:{number} in {function}"


def message(body):
    def run(comm):
        with pytest.raises(tutti.InvalidUsageError) as caught:
            body(comm)
        return caught.value.message

    return run


def require_both(body, first, second):
    for text in ranks.run(2, message(body)):
        assert f" at {first}" in text and f" at {second}" in text, text


def test_the_lines_of_both_ranks():
    def step(comm):
        if comm.rank == 0:
            comm.all_reduce(np.zeros(8))  # reduces
        else:
            comm.all_gather(np.zeros(8))  # gathers

    require_both(step, site("reduces", "step"), site("gathers", "step"))


def test_one_line_that_two_ranks_call_differently():
    def step(comm):
        comm.all_reduce(np.zeros(8 + comm.rank))  # unequal

    for text in ranks.run(2, message(step)):
        assert text.count(" at " + site("unequal", "step")) == 2, text


def mean(comm, array):
    return comm.all_reduce(array, op="avg")  # a wrapper


def test_a_wrapper_of_the_user_is_the_users_code():
    def step(comm):
        return mean(comm, np.zeros(8)) if comm.rank == 0 else comm.barrier()  # not wrapped

    require_both(step, site("a wrapper", "mean"), site("not wrapped", "step"))


def test_the_package_is_not_the_users_code():
    def step(comm):
        if comm.rank == 0:
            comm.all_gather_object({"a": 1})  # an object
        else:
            comm.all_reduce(np.zeros(8))  # no object

    require_both(step, site("an object", "step"), site("no object", "step"))


def test_code_without_a_file():
    def step(comm):
        call = ["all_reduce", "all_gather"][comm.rank]
        exec(compile(f"\n\ncomm.{call}(array)", f"<cell {comm.rank}>", "exec"), {"comm": comm, "array": np.zeros(8)})

    require_both(step, "<cell 0>:3", "<cell 1>:3")


def test_the_call_in_a_group_and_not_the_groups_end():
    def step(comm):
        with tutti.group():
            if comm.rank == 0:
                comm.all_reduce(np.zeros(8))  # reduces in a group
            else:
                comm.all_gather(np.zeros(8))  # gathers in a group
            comm.all_reduce(np.zeros(8))

    require_both(step, site("reduces in a group", "step"), site("gathers in a group", "step"))


def test_the_call_on_a_stream_and_not_the_streams_thread():
    def step(comm):
        with tutti.Stream() as stream:
            if comm.rank == 0:
                comm.all_reduce(np.zeros(8), stream=stream).wait()  # reduces on a stream
            else:
                comm.all_gather(np.zeros(8), stream=stream).wait()  # gathers on a stream

    require_both(step, site("reduces on a stream", "step"), site("gathers on a stream", "step"))


def dumped(comm, path):
    comm.dump(str(path))
    return [operation.get("site") for operation in json.loads(Path(path).read_text())["operations"]]


def test_a_repeated_call_from_other_lines(tmp_path):
    """The short path of repeated calls, which the library recognises by their arguments."""
    def body(comm):
        array = np.zeros(2)
        for _ in range(20):
            comm.all_reduce(array, array)  # once
            comm.all_reduce(array, array)  # twice
        return dumped(comm, tmp_path / str(comm.rank))

    for sites in ranks.run(2, body):
        names = [os.path.basename(each) for each in sites]
        assert names == [site("once", "body"), site("twice", "body")] * 20


def test_more_lines_than_the_recorder_keeps(tmp_path):
    def body(comm):
        array = np.zeros(2)
        names = {"comm": comm, "array": array}
        for cell in range(500):
            exec(compile("comm.all_reduce(array, array)", f"<cell {cell}>", "exec"), names)
            comm.all_reduce(array, array)  # at all times
        return dumped(comm, tmp_path / str(comm.rank))

    for sites in ranks.run(2, body):
        own = site("at all times", "body")
        assert [os.path.basename(each) for each in sites] == [
            each for cell in range(436, 500) for each in (f"<cell {cell}>:1", own)]
