"""Tests a restarted job, whose store still has the entries of the previous attempt."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from datetime import timedelta

import torch
import torch.distributed as dist

import ranks

ATTEMPTS = 5

PROGRAM = """
import os, sys, torch, torch.distributed as dist, tutti_torch
dist.init_process_group('tutti')
one = torch.ones(1)
dist.all_reduce(one)
if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':
    if dist.get_rank() == 1:
        sys.exit(3)
    dist.all_reduce(one)
print(f'{int(one)} ranks are here again', flush=True)
dist.destroy_process_group()
"""


def attempt(rank, n, port, number):
    """One attempt of a job whose store outlives it. Rank 1 ends as if killed."""
    store = dist.TCPStore("127.0.0.1", port, None, False, timedelta(seconds=60))
    # Older PyTorch versions have their own barrier, which counts the ranks of all attempts together.
    dist.distributed_c10d._store_based_barrier = lambda *arguments, **named: None
    if rank == 0:
        time.sleep(0.3)  # the other ranks start first and find the old entries
    dist.init_process_group("tutti", store=store, rank=rank, world_size=n, timeout=timedelta(seconds=60))
    tensor = torch.full((1,), float(number))
    dist.all_reduce(tensor)
    got = torch.zeros(1)
    if rank == 0:
        dist.send(tensor, n - 1)
    elif rank == n - 1:
        dist.recv(got, 0)
        assert got.item() == tensor.item()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return tensor.item()


def again_and_again(rank, n, port, signs):
    for number in range(20):
        # Each group uses a new store on the same port, so the next group must not find the previous store.
        dist.init_process_group("tutti", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=n,
                                timeout=timedelta(seconds=60))
        tensor = torch.full((1,), float(number))
        dist.all_reduce(tensor)
        assert tensor.item() == n * number
        # When rank 0 destroys the group, it closes PyTorch's store while slower ranks use it, and an early rank finds
        # the old store. Every backend has this race, so the ranks wait for each other here.
        if rank == 0:
            signs.wait_for(*(f"{number} {other}" for other in range(1, n)))
        dist.destroy_process_group()
        signs.give(f"{number} {rank}")
        signs.wait_for(f"{number} 0")


class Restarts(unittest.TestCase):
    def test_store_of_an_earlier_attempt(self):
        for n in (2, 4):
            with self.subTest(ranks=n):
                server = subprocess.Popen(
                    [sys.executable, "-W", "ignore", "-c", "import sys, torch.distributed as dist\n"
                     "store = dist.TCPStore('127.0.0.1', 0, None, True, wait_for_workers=False)\n"
                     "print(store.port, flush=True)\nsys.stdin.read()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    text=True)
                try:
                    port = int(server.stdout.readline())
                    for number in range(1, ATTEMPTS + 1):
                        got = ranks.outcomes(n, attempt, n, port, number, backend=None)
                        for rank, outcome in enumerate(got):
                            self.assertIsNone(outcome.error, f"attempt {number}, rank {rank}")
                            self.assertTrue(outcome.died if rank == 1 else outcome.value == n * number)
                finally:
                    server.stdin.close()
                    server.wait(10)
                    server.stdout.close()

    def test_again_on_one_port(self):
        ranks.run(3, again_and_again, 3, ranks.free_port(), ranks.Signs(), backend=None)

    @unittest.skipIf(int(torch.__version__.split(".")[0]) < 2, "torchrun of PyTorch 1.13 does not run on this Python")
    def test_torchrun(self):
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "program.py")
            with open(program, "w") as file:
                file.write(PROGRAM)
            for how in (["--standalone"], ["--master-addr=127.0.0.1", f"--master-port={ranks.free_port()}"],
                        ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{ranks.free_port()}"]):
                with self.subTest(how):
                    run = subprocess.run([sys.executable, "-W", "ignore", "-m", "torch.distributed.run", *how,
                                          "--max-restarts=1", "--monitor-interval=0.1", "--nproc_per_node=3", program],
                                         capture_output=True, text=True, timeout=180)
                    self.assertEqual(run.stdout.count("3 ranks are here again"), 3, run.stdout + run.stderr)


if __name__ == "__main__":
    unittest.main()
