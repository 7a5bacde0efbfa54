"""Groups of Ray's actors on a local cluster of two nodes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

ray = pytest.importorskip("ray")

from ray.util import collective  # noqa: E402

import tutti  # noqa: E402
import tutti.ray  # noqa: E402

SIZE = 4
TYPES = ["float32", "float64", "int32", "int64", "uint8", "float16"]


@pytest.fixture(scope="module", autouse=True)
def cluster():
    from ray.cluster_utils import Cluster
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 8})
    nodes.add_node(num_cpus=8)
    tutti.ray.register()
    ray.init(address=nodes.address, namespace="tutti-test", log_to_driver=False,
             runtime_env={"worker_process_setup_hook": "tutti.ray.register",
                          "env_vars": {"TUTTI_INIT_TIMEOUT_MS": "60000", "RAY_DEDUP_LOGS": "0"}})
    yield nodes
    ray.shutdown()
    nodes.shutdown()


@ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
class Actor:
    """Runs a function of the test with this actor's state."""

    def run(self, body, *arguments):
        return body(self, *arguments)

    def pid(self):
        return os.getpid()

    def node(self):
        return ray.get_runtime_context().get_node_id()


def actors_of(size, environment=None):
    options = {} if environment is None else {"runtime_env": {
        "worker_process_setup_hook": "tutti.ray.register", "env_vars": environment}}
    return [Actor.options(**options).remote() for _ in range(size)]


def join(actors, name):
    collective.create_collective_group(actors, len(actors), list(range(len(actors))), backend="tutti", group_name=name)

    def enter(_):  # an actor joins when it first asks for the group
        collective.get_group_handle(name)
    on_all(actors, enter)


def on_all(actors, body, *arguments):
    return ray.get([actor.run.remote(body, *arguments) for actor in actors], timeout=120)


def leave(actors, name):
    def destroy(_):
        collective.destroy_collective_group(name)
    on_all(actors, destroy)
    for actor in actors:
        ray.kill(actor)


@pytest.fixture(scope="module")
def four(cluster):
    actors = actors_of(SIZE)
    assert len(set(ray.get([actor.node.remote() for actor in actors]))) == 2
    join(actors, "four")
    yield actors
    leave(actors, "four")


@pytest.mark.parametrize("dtype", TYPES)
def test_all_reduce(four, dtype):
    def body(_, dtype):
        rank, found = collective.get_rank("four"), []
        for op, reduce in ((collective.types.ReduceOp.SUM, np.sum), (collective.types.ReduceOp.PRODUCT, np.prod),
                           (collective.types.ReduceOp.MIN, np.min), (collective.types.ReduceOp.MAX, np.max)):
            for shape in ((), (1,), (7, 3), (1000,)):
                mine = np.full(shape, rank + 1, dtype)
                collective.allreduce(mine, "four", op)
                found.append(bool((mine == reduce(np.arange(1, SIZE + 1)).astype(dtype)).all()))
        return found

    for found in on_all(four, body, dtype):
        assert found == [True] * len(found)


def test_every_other_call(four):
    def body(_):
        rank, size = collective.get_rank("four"), collective.get_collective_group_size("four")
        found = {}
        for count in (1, 5, 3000):
            own = np.arange(count, dtype=np.float64) + 100 * rank
            gathered = [np.zeros(count) for _ in range(size)]
            collective.allgather(gathered, own, "four")
            found["allgather", count] = all((each == np.arange(count) + 100 * r).all() for r, each in enumerate(gathered))

            kept = [np.full(count, float(rank + 10 * part)) for part in range(size)]
            result = np.zeros(count)
            collective.reducescatter(result, kept, "four")
            found["reducescatter", count] = bool((result == sum(range(size)) + 10 * size * rank).all())
            found["reducescatter keeps", count] = all((each == rank + 10 * p).all() for p, each in enumerate(kept))

            for root in range(size):
                same = np.full(count, float(rank))
                collective.broadcast(same, root, "four")
                found["broadcast", count, root] = bool((same == root).all())
                one = np.full(count, float(rank))
                collective.reduce(one, root, "four")
                found["reduce", count, root] = bool((one == (sum(range(size)) if rank == root else rank)).all())

            to, source = (rank + 1) % size, (rank - 1) % size
            received = np.zeros(count)
            if rank % 2 == 0:
                collective.send(own, to, "four")
                collective.recv(received, source, "four")
            else:
                collective.recv(received, source, "four")
                collective.send(own, to, "four")
            found["send", count] = bool((received == np.arange(count) + 100 * source).all())
        collective.barrier("four")
        return [name for name, right in found.items() if not right]

    assert on_all(four, body) == [[]] * SIZE


def test_pytorch(four):
    pytest.importorskip("torch")

    def body(_):
        import torch
        rank, size = collective.get_rank("four"), SIZE
        mine = torch.full((3, 4), float(rank), dtype=torch.bfloat16, requires_grad=True)
        collective.allreduce(mine, "four")
        gathered = [torch.zeros(2) for _ in range(size)]
        collective.allgather(gathered, torch.tensor([1.0, rank]), "four")
        part = torch.zeros(2)
        collective.reducescatter(part, [torch.full((2,), float(p)) for p in range(size)], "four")
        return (bool((mine == 6).all()), [each.tolist() for each in gathered], part.tolist())

    for rank, (right, gathered, part) in enumerate(on_all(four, body)):
        assert right
        assert gathered == [[1.0, r] for r in range(SIZE)]
        assert part == [SIZE * rank] * 2


def test_the_communicator_does_what_ray_has_no_call_for(four):
    def body(_):
        comm = tutti.ray.communicator("four")
        exchanged = comm.all_to_all(np.arange(comm.size) + 10 * comm.rank)
        return exchanged.tolist(), comm.all_gather_object({"rank": comm.rank})

    for rank, (exchanged, objects) in enumerate(on_all(four, body)):
        assert exchanged == [10 * r + rank for r in range(SIZE)]
        assert objects == [{"rank": r} for r in range(SIZE)]


@pytest.mark.parametrize(("case", "words"), [
    ("strides", "contiguous"), ("read-only", "read-only|writable|writeable"), ("list", "shape"), ("two", "one for each"),
                                             ("masked", "masked array")])
def test_what_is_refused(four, case, words):
    def body(_, case):
        group = collective.get_group_handle("four")
        if case == "strides":
            collective.allreduce(np.ones((4, 4))[:, ::2], "four")
        elif case == "read-only":
            fixed = np.ones(3)
            fixed.flags.writeable = False
            collective.allreduce(fixed, "four")
        elif case == "list":
            collective.allgather([np.ones(2)] * 3 + [np.ones(3)], np.ones(2), "four")
        elif case == "masked":
            collective.reducescatter(np.ones(2), [np.ma.masked_array(np.ones(2), [True, False])] * 4, "four")
        else:
            group.allreduce([np.ones(1), np.ones(1)])

    for actor in four:
        with pytest.raises((tutti.Error, ValueError), match=words):
            ray.get(actor.run.remote(body, case))
    test_the_communicator_does_what_ray_has_no_call_for(four)  # the group still works


def test_unequal_lengths_are_named():
    pair = actors_of(2)
    join(pair, "unequal")

    def body(_):
        collective.allreduce(np.ones(10 + collective.get_rank("unequal")), "unequal")

    for actor_result in [actor.run.remote(body) for actor in pair]:
        with pytest.raises(tutti.Error, match=r"do not match: .* at ray_test\.py:\d+ in body, .* at ray_test\.py:\d+ in body"):
            ray.get(actor_result, timeout=60)
    leave(pair, "unequal")


def test_between_nodes_without_shared_memory():
    """As if each two of the actors were on a host of their own."""
    actors = actors_of(SIZE, {"TUTTI_VIRTUAL_HOSTS": "2"})
    join(actors, "hosts")

    def body(_):
        mine = np.full(100_000, float(collective.get_rank("hosts")))
        collective.allreduce(mine, "hosts")
        return mine[0], mine[-1]

    assert on_all(actors, body) == [(6.0, 6.0)] * SIZE
    leave(actors, "hosts")


def work(_, name):
    mine = np.ones(3)
    for _ in range(1_000_000):
        collective.allreduce(mine, name)


def test_a_dead_actor_is_named_and_the_others_go_on():
    actors = actors_of(3)
    join(actors, "mortal")
    victim = ray.get(actors[1].pid.remote())
    running = [actor.run.remote(work, "mortal") for actor in actors]
    time.sleep(0.5)
    os.kill(victim, signal.SIGKILL)
    for rank in (0, 2):
        with pytest.raises(tutti.RemoteError) as caught:
            ray.get(running[rank], timeout=30)
        assert (caught.value.rank, caught.value.pid) == (1, victim)
    survivors = [actors[0], actors[2]]

    def go_on(_):
        tutti.ray.shrink("mortal")
        mine = np.ones(5)
        collective.allreduce(mine, "mortal")
        return collective.get_rank("mortal"), collective.get_collective_group_size("mortal"), mine.tolist()

    assert on_all(survivors, go_on) == [(0, 2, [2.0] * 5), (1, 2, [2.0] * 5)]
    leave(survivors, "mortal")


def test_a_group_is_made_again_under_its_name():
    """Also when some who asked for it died before it was made."""
    def enter(_, size, rank):
        collective.init_collective_group(size, rank, backend="tutti", group_name="again")
        mine = np.ones(1)
        collective.allreduce(mine, "again")
        return mine.tolist()

    for attempt in range(3):
        lost = actors_of(1)[0]
        ray.get(lost.pid.remote())
        lost.run.remote(enter, 2, 1)
        time.sleep(0.3)
        ray.kill(lost)
        pair = actors_of(2)
        assert ray.get([actor.run.remote(enter, 2, rank) for rank, actor in enumerate(pair)], timeout=60) == [[2.0]] * 2
        for actor in pair:  # without leaving
            ray.kill(actor)


def test_rank_0_that_does_not_come_is_named():
    alone = actors_of(1, {"TUTTI_INIT_TIMEOUT_MS": "700"})[0]

    def enter(_):
        collective.init_collective_group(2, 1, backend="tutti", group_name="absent")

    with pytest.raises(tutti.TimeoutError, match="rank 0 of the group 'absent' has not come within 0.7 s"):
        ray.get(alone.run.remote(enter), timeout=30)
    ray.kill(alone)


def test_a_job_of_one_actor():
    one = actors_of(1)
    join(one, "one")

    def body(_):
        mine = np.arange(3.0)
        collective.allreduce(mine, "one")
        return mine.tolist()

    assert on_all(one, body) == [[0.0, 1.0, 2.0]]
    leave(one, "one")


def test_groups_of_rays_experimental_interface():
    pytest.importorskip("torch")  # which that interface imports
    from ray.experimental.collective import create_collective_group, destroy_collective_group

    def body(_, name):
        mine = np.ones(5)
        collective.allreduce(mine, name)
        return mine.tolist()

    pair = actors_of(2)
    for name in ("first", "second"):
        group = create_collective_group(pair, backend="tutti", name=name)
        assert on_all(pair, body, name) == [[2.0] * 5] * 2
        destroy_collective_group(group)
    for actor in pair:
        ray.kill(actor)


def test_two_hosts():
    """Sets of namespaces with a network between them."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}  # the other cluster's
    done = subprocess.run([Path(__file__).parent / "ray_hosts.sh", sys.executable], capture_output=True, text=True,
                          timeout=200, check=False, env=clean)
    if done.returncode == 77:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all-reduce is right" in done.stdout
