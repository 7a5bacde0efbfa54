"""The driver of ray_hosts.sh."""

import os
import signal
import sys
import time

import numpy as np
import ray
from ray.util import collective

import tutti
import tutti.ray

SIZE = 4


@ray.remote(num_cpus=1)
class Actor:
    def host(self):
        return os.uname().nodename, os.getpid()

    def reduce(self, count):
        collective.get_group_handle()
        mine = np.arange(count, dtype=np.float64) + collective.get_rank()
        collective.allreduce(mine)
        return bool((mine == SIZE * np.arange(count) + sum(range(SIZE))).all())

    def work(self):
        mine = np.ones(1000)
        while True:
            collective.allreduce(mine)

    def kill(self, pid):
        os.kill(pid, signal.SIGKILL)


def main():
    tutti.ray.register()
    ray.init(address=sys.argv[1], log_to_driver=False, runtime_env={"worker_process_setup_hook": "tutti.ray.register"})
    deadline = time.monotonic() + 60
    while ray.cluster_resources().get("CPU", 0) < SIZE:
        assert time.monotonic() < deadline, "the second host has not come"
        time.sleep(0.2)
    actors = [Actor.options(max_concurrency=2).remote() for _ in range(SIZE)]
    places = ray.get([actor.host.remote() for actor in actors])
    assert {host for host, _ in places} == {"host0", "host1"}, places
    collective.create_collective_group(actors, SIZE, list(range(SIZE)), backend="tutti")
    for count in (1, 1000, 1_000_000):
        assert ray.get([actor.reduce.remote(count) for actor in actors], timeout=60) == [True] * SIZE
    print(f"{SIZE} actors on two hosts: all-reduce is right", flush=True)

    victim = next(rank for rank in range(1, SIZE) if places[rank][0] == "host1")
    running = [actor.work.remote() for actor in actors]
    time.sleep(0.5)
    actors[victim].kill.remote(places[victim][1])
    for rank in range(SIZE):
        if rank == victim:
            continue
        try:
            ray.get(running[rank], timeout=60)
        except tutti.RemoteError as error:
            assert (error.rank, error.host, error.pid) == (victim, *places[victim]), error
            print(f"rank {rank}: {error.message}", flush=True)
    ray.shutdown()


main()
