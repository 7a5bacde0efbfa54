"""Kills ranks of jobs that torchrun restarts, at random moments, and looks at what the others say.

TUTTI_TEST_KILLS and TUTTI_TEST_SEED choose how many, and when. scripts/interop/pytorch_kills.sh runs it long.
"""

import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import torch

import ranks

KILLS = int(os.environ.get("TUTTI_TEST_KILLS", "3"))
SEED = int(os.environ.get("TUTTI_TEST_SEED", "1"))
RANKS = 3
LIMIT_S = 300  # for each attempt, most of it to import PyTorch on a busy machine

# In each attempt but the last one a rank is killed at a random moment. The others ignore torchrun's SIGTERM, as
# docs/pytorch.md advises, and end by themselves.
PROGRAM = """
import os, random, signal, sys, threading, torch, torch.distributed as dist, tutti_torch
from torch.nn.parallel import DistributedDataParallel
folder, kills, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
attempt, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), int(os.environ["RANK"])
signal.signal(signal.SIGTERM, signal.SIG_IGN)
torch.set_num_threads(1)
torch.manual_seed(0)
draw = random.Random(1000 * seed + attempt)
victim, moment = draw.randrange(int(os.environ["WORLD_SIZE"])), draw.uniform(0, 0.5)
os.environ["TUTTI_DUMP"] = f"{folder}/{attempt}-%r.json"
dist.init_process_group("tutti")
model = torch.nn.Linear(16, 4)
parallel = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
step, checkpoint = 0, f"{folder}/checkpoint"
if os.path.exists(checkpoint):
    step, state = torch.load(checkpoint)
    model.load_state_dict(state)
if attempt < kills and rank == victim:
    threading.Timer(moment, os.kill, (os.getpid(), signal.SIGKILL)).start()
if attempt == kills:
    last = step + 20
try:
    while attempt < kills or step < last:
        optimizer.zero_grad()
        parallel(torch.randn(8, 16)).square().mean().backward()
        optimizer.step()
        step += 1
        if step % 10 == 0 and rank == 0:
            torch.save((step, model.state_dict()), checkpoint + ".new")
            os.rename(checkpoint + ".new", checkpoint)
except dist.DistBackendError as error:
    with open(f"{folder}/said", "a") as file:
        file.write(f"{attempt} {rank} {victim} {str(error).splitlines()[0]}\\n")
    raise
with open(f"{folder}/ended", "a") as file:
    file.write(f"{rank} {step}\\n")
dist.destroy_process_group()
"""


@unittest.skipIf(int(torch.__version__.split(".")[0]) < 2, "torchrun of PyTorch 1.13 does not run on this Python")
class Kills(unittest.TestCase):
    def test_torchrun_restarts(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            program = folder / "program.py"
            program.write_text(PROGRAM)
            job = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--master-addr=127.0.0.1",
                 f"--master-port={ranks.free_port()}", f"--max-restarts={KILLS}", f"--nproc_per_node={RANKS}", str(program),
                 str(folder), str(KILLS), str(SEED)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            try:
                _, errors = job.communicate(timeout=LIMIT_S * (KILLS + 1))
            except subprocess.TimeoutExpired:
                job.terminate()  # torchrun then kills the ranks, which ignore SIGTERM, after 30 s
                raise
            self.assertEqual(job.returncode, 0, errors[-5000:])
            ended = dict(line.split() for line in (folder / "ended").read_text().splitlines())
            self.assertEqual(sorted(ended), [str(rank) for rank in range(RANKS)])
            self.assertEqual(len(set(ended.values())), 1, ended)
            self.check_messages(folder)

    def check_messages(self, folder):
        """In each attempt both survivors name the rank that died, and write the dump of their last calls."""
        said = collections.defaultdict(dict)
        for line in (folder / "said").read_text().splitlines():
            attempt, rank, victim, message = line.split(" ", 3)
            said[int(attempt)][int(rank)] = message
            self.assertRegex(message, rf"\brank {victim} \(host \S+, pid \d+\)(, \w+)? died", line)
            dump = json.loads((folder / f"{attempt}-{rank}.json").read_text())
            self.assertTrue(dump, line)
        self.assertEqual({attempt: len(messages) for attempt, messages in said.items()},
                         {attempt: RANKS - 1 for attempt in range(KILLS)})
        kinds = collections.Counter(re.sub(r"\d+", "N", message) for messages in said.values() for message in messages.values())
        print(f"{KILLS} kills (seed {SEED}): {sum(kinds.values())} messages, all of which name the killed rank", flush=True)


if __name__ == "__main__":
    unittest.main()
