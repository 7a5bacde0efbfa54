"""A front and replicas of one or two ranks, which are processes."""

import os
import pathlib
import re
import signal

import pytest
import ranks
from interrupts_test import outcomes_after_an_interrupt

import tutti

pytest.importorskip("tutti.parallel", exc_type=ImportError)
import tutti.parallel as tp  # noqa: E402

FRONT = 2  # of five ranks; the others are two replicas


def place_of(rank):
    """The replica of a rank."""
    return None if rank == FRONT else int(rank > FRONT)


def answered(comm, policy):
    """Each replica waits for two requests before it answers them, the last one first."""
    costs = [10, 3, 3, 3, 3, 3]
    if comm.rank == FRONT:
        router = tp.ReplicaRouter(comm, policy=policy)
        assert router.replicas == [[0, 1], [3, 4]]
        asked = {router.submit(b"%d" % number * number, cost=cost): number for number, cost in enumerate(costs)}
        shares = [router.statistics(replica).submitted for replica in (0, 1)]
        assert sum(router.statistics(replica).outstanding_cost for replica in (0, 1)) == sum(costs)
        with pytest.raises(tutti.InvalidUsageError, match="6 requests are outstanding"):
            router.stop()
        if shares[0] % 2:  # each replica waits for one more
            router.submit(b"", cost=0), router.submit(b"", cost=0)
        while router.outstanding:
            reply = router.wait()
            if reply.id in asked:
                number = asked.pop(reply.id)
                assert reply.bytes == b"<" + b"%d" % number * number + b">"
        assert not asked and router.poll() is None
        with pytest.raises(tutti.InvalidUsageError, match="0 requests"):
            router.wait()
        router.stop()
        with pytest.raises(tutti.InvalidUsageError, match="after stop"):
            router.submit(b"")
        router.close()
        with pytest.raises(tutti.InvalidUsageError, match="closed"):
            router.poll()
        return shares
    replica, under_way, most = tp.Replica(comm, number=place_of(comm.rank)), [], 0
    while not replica.stopped:
        request = replica.poll()
        if request is not None:
            under_way.append(request)
            most = max(most, len(under_way))
        if len(under_way) >= 2:
            for one in reversed(under_way):
                replica.reply(one.id, b"<" + one.bytes + b">")
            under_way.clear()
    assert replica.poll() is None and most == 2
    replica.close()


@pytest.mark.parametrize(("policy", "shares"), [("round_robin", [3, 3]), ("least_outstanding", [2, 4])])
def test_requests_go_by_turns_or_by_load(policy, shares):
    assert ranks.run(5, answered, policy)[FRONT] == shares


def dying(comm):
    if comm.rank == FRONT:
        router, lost = tp.ReplicaRouter(comm, policy="round_robin"), None
        asked = [router.submit(b"%d" % number) for number in range(6)]
        texts = {}
        while router.outstanding:
            try:
                reply = router.wait()
                texts[reply.id] = reply.bytes
            except tp.ReplicaError as error:
                lost = error
                for number in error.outstanding:
                    asked[number] = router.submit(b"%d" % number)
        assert lost.replica == 1 and set(lost.outstanding) == {1, 3, 5} and "ranks 3, 4" in str(lost)
        assert not router.statistics(1).alive
        router.stop()
        router.close()
        return [texts[one] for one in asked]
    replica = tp.Replica(comm, number=place_of(comm.rank))
    while not replica.stopped:
        request = replica.poll()
        if request is None:
            continue
        if comm.rank == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        replica.reply(request.id, request.bytes)
    replica.close()


def test_the_requests_of_a_replica_that_dies_go_to_another():
    ends = ranks.outcomes(5, dying)
    assert ends[FRONT] == ("value", [b"%d" % number for number in range(6)])
    assert [kind for kind, _ in ends] == ["value", "value", "value", "died", "error"]
    assert isinstance(ends[4][1][0], tutti.RemoteError) and "serving_test.py:" in str(ends[4][1][0]), ends[4]


def interrupted(comm, signs):
    """A reply that the front does not take."""
    if comm.rank == 1:
        router = tp.ReplicaRouter(comm)
        router.submit(b"a")
        while not signs.has("waiting"):
            router.poll()
        signs.wait_for("interrupted")
        with pytest.raises(tp.ReplicaError, match="rank 0"):
            router.wait()
        return
    replica, request = tp.Replica(comm, number=0), None
    while request is None:
        request = replica.poll()
    signs.give("waiting")
    with pytest.raises(KeyboardInterrupt):
        replica.reply(request.id, bytes(64 << 20))
    signs.give("interrupted")


def test_ctrl_c_ends_a_reply(tmp_path):
    ends = outcomes_after_an_interrupt(str(tmp_path), 2, interrupted)
    assert [kind for kind, _ in ends] == ["value", "value"], ends


def wrong(comm):
    with pytest.raises(tutti.InvalidUsageError, match="0 ranks make a ReplicaRouter"):
        tp.Replica(comm, number=0)
    with pytest.raises(tutti.InvalidUsageError, match="2 ranks make a ReplicaRouter"):
        tp.ReplicaRouter(comm)
    if comm.rank == 0:
        with pytest.raises(tutti.InvalidArgumentError, match="policy is random"):
            tp.ReplicaRouter(comm, policy="random")
    else:
        with pytest.raises(tutti.RemoteError):
            tp.Replica(comm, number=0)


def test_what_does_not_fit_is_said():
    ranks.run(2, wrong)


def work(comm):
    mine = comm.rank == 1
    with tp.initialize(comm):
        assert tp.any_replica_has_work(mine) == mine
    with tp.initialize(comm, enable_expert_parallel=True) as p:
        assert tp.any_replica_has_work(mine)
        assert not tp.any_replica_has_work(False)
        assert p.experts_join_replicas
    with tp.initialize(comm, tensor_parallel_size=2, enable_expert_parallel=True) as p:
        assert not p.experts_join_replicas and tp.any_replica_has_work(mine) == mine
        p.world.barrier()


def test_replicas_that_share_experts_agree_on_work():
    ranks.run(2, work)


def page(comm, blocks):
    found = {"tp": tp, "comm": comm, "prompt": b"a", "tokens": 1, "generate": lambda prompt: prompt + b"b"}
    inside = comm.split(None if comm.rank == FRONT else 0)
    if inside is None:
        exec(blocks[0], found)
        assert found["reply"].id == found["number"] and found["reply"].bytes == b"ab"
        return
    with inside, tp.initialize(inside, tensor_parallel_size=2):
        exec(blocks[1], found)


def test_the_pages_example():
    text = (pathlib.Path(__file__).parents[4] / "docs/parallel.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(rout.*?|repl.*?)```", text, re.DOTALL)
    assert len(blocks) == 2
    ranks.run(5, page, blocks)
