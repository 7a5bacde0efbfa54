"""What goes wrong between ranks is an exception on each of them, with the culprit where there is one."""

import os
import pickle
import re
import traceback

import numpy as np
import pytest

import ranks
import tutti


def raised(body):
    def run(comm, *arguments):
        try:
            body(comm, *arguments)
        except tutti.Error as error:
            return {"kind": type(error).__name__, "code": error.code, "rank": error.rank, "host": error.host,
                    "pid": error.pid, "message": error.message, "named": [one.rank for one in error.named]}
        return None

    run.__name__ = body.__name__
    return run


def test_unequal_lengths():
    ends = ranks.run(2, raised(lambda comm: comm.all_reduce(np.zeros(3 + comm.rank))))
    for end in ends:
        assert end["kind"] == "InvalidUsageError" and end["code"] == tutti.Result.INVALID_USAGE
        assert "count=3" in end["message"] and "count=4" in end["message"]
        assert end["rank"] is None and sorted(end["named"]) == [0, 1]


def test_unequal_types():
    ends = ranks.run(2, raised(lambda comm: comm.all_reduce(np.zeros(3, [np.int32, np.float32][comm.rank]))))
    assert [end["kind"] for end in ends] == ["InvalidUsageError"] * 2


def test_unequal_calls():
    ends = ranks.run(2, raised(lambda comm: comm.all_reduce(np.zeros(3)) if comm.rank else comm.all_gather(np.zeros(3))))
    for end in ends:
        assert end["kind"] == "InvalidUsageError" and "all_reduce" in end["message"] and "all_gather" in end["message"]


def test_unequal_messages():
    ends = ranks.run(2, raised(lambda comm: comm.send(np.zeros(3), 1) if comm.rank == 0 else comm.recv(np.zeros(4), 0)))
    assert ends[1]["kind"] == "InvalidUsageError"


def test_a_dead_rank_is_named():
    def body(comm):
        if comm.rank == 1:
            os._exit(1)
        comm.all_reduce(np.zeros(100))

    job = ranks.Job(3, raised(body))
    ends = job.outcomes()
    assert ends[1] == ("died", None)
    for kind, end in (ends[0], ends[2]):
        assert kind == "value" and end["kind"] == "RemoteError"
        assert (end["rank"], end["pid"], end["host"]) == (1, job.processes[1].pid, os.uname().nodename)


def test_a_rank_that_does_not_come_is_named(tmp_path):
    signs = ranks.Signs(tmp_path)

    def body(comm):
        if comm.rank == 1:
            signs.wait_for("told")
            return
        try:
            comm.all_reduce(np.zeros(100))
        finally:
            signs.give("told")

    ends = ranks.run(2, raised(body), timeout=0.5)
    assert ends[0]["kind"] == "TimeoutError" and ends[0]["rank"] == 1


def test_a_dead_communicator_says_why(tmp_path):
    def body(comm):
        if comm.rank == 1:
            comm.abort()
            return None
        messages = []
        for _ in range(2):
            with pytest.raises(tutti.RemoteError) as caught:
                comm.all_reduce(np.zeros(100))
            messages.append(str(caught.value))
        return messages

    first, second = ranks.run(2, body)[0]
    assert "rank 1" in first and "rank 1" in second


def test_init_that_waits_in_vain():
    os_environ = ranks.environment(0, 2, ranks.free_port())
    with pytest.MonkeyPatch.context() as patch:
        for name, value in os_environ.items():
            patch.setenv(name, value)
        with pytest.raises(tutti.TimeoutError) as caught:
            tutti.init(init_timeout=0.3)
        assert isinstance(caught.value, TimeoutError) and isinstance(caught.value, tutti.Error)
        patch.setenv("RANK", "two")
        with pytest.raises(tutti.InvalidUsageError, match="RANK"):
            tutti.init()
        patch.setenv("RANK", "1")
        patch.delenv("MASTER_PORT")
        with pytest.raises(tutti.InvalidUsageError, match="MASTER_PORT"):
            tutti.init()


def test_errors_can_be_pickled():
    for kind in (tutti.RemoteError, tutti.TimeoutError, tutti.InvalidArgumentError):
        error = pickle.loads(pickle.dumps(kind("rank 3 (host a b, pid 12) was lost")))
        assert (type(error), error.rank, error.host, error.pid) == (kind, 3, "a b", 12)
        assert str(error) == error.message == "rank 3 (host a b, pid 12) was lost"


def test_kinds():
    assert issubclass(tutti.InvalidArgumentError, ValueError)
    assert issubclass(tutti.TimeoutError, TimeoutError)
    for kind in (tutti.CudaError, tutti.InternalError, tutti.OperatingSystemError, tutti.RemoteError,
                 tutti.InvalidUsageError, tutti.InvalidArgumentError, tutti.TimeoutError):
        assert issubclass(kind, tutti.Error) and isinstance(kind("x").code, tutti.Result)
        assert traceback.format_exception_only(kind("x")) == [f"tutti.{kind.__name__}: x\n"]
    assert (tutti.Error("nothing").rank, tutti.Error("nothing").pid) == (None, None)


def test_versions():
    assert tutti.__version__ == ".".join(map(str, tutti.library_version()))
    assert int(tutti.settings()["TUTTI_INIT_TIMEOUT_MS"]) >= 0
    header = os.path.join(os.path.dirname(__file__), "../../../include/tutti/tutti.h")
    with open(header, encoding="utf-8") as file:
        text = file.read()
    for code in tutti.Result:
        name = "tutti" + code.name.title().replace("_", "")
        assert re.search(rf"\b{name} = {code.value}\b", text), name
    for op in tutti.Op:
        assert re.search(rf"\btutti{op.name.title()} = {op.value}\b", text), op
