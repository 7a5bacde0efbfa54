"""Trains with torchft over Tutti while replicas are killed at random moments and come back.

TUTTI_TEST_KILLS and TUTTI_TEST_SEED choose how many, and when. scripts/interop/pytorch_kills.sh runs it long.
"""

import importlib.util
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
import unittest

KILLS = int(os.environ.get("TUTTI_TEST_KILLS", "3"))
SEED = int(os.environ.get("TUTTI_TEST_SEED", "1"))
REPLICAS = 3
STEPS_AFTERWARDS = 20
LIMIT_S = 600  # for a replica to take its next steps, after it has imported PyTorch on a busy machine
HAS_TORCHFT = importlib.util.find_spec("torchft") is not None


class Job:
    def __init__(self, folder, lighthouse):
        self.folder, self.lighthouse = pathlib.Path(folder), lighthouse
        self.processes = {}
        self.log = open(self.folder / "log", "a")

    def start(self, number):
        # TUTTI_TIMEOUT_MS is left to the program, which sets the group's timeout.
        self.processes[number] = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(pathlib.Path(__file__).with_name("torchft_replica.py")), self.lighthouse, str(number),
             str(self.folder)], stdout=self.log, stderr=self.log)

    def steps(self, number):
        """[(step, hash of the parameters)] of all lives of this replica. A kill may leave an incomplete line."""
        try:
            text = (self.folder / f"{number}.steps").read_text()
        except FileNotFoundError:
            return []
        return [tuple(line.split()) for line in text.splitlines() if re.fullmatch(r"\d+ \w{16}", line)]

    def wait_for_more_steps(self, number, known, more):
        deadline = time.monotonic() + LIMIT_S
        while len(self.steps(number)) < known + more:
            for other, process in self.processes.items():
                if process.poll() is not None:
                    raise AssertionError(f"replica {other} ended with status {process.returncode}:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise AssertionError(f"replica {number} takes no steps:\n{self.tail()}")
            time.sleep(0.02)

    def tail(self):
        return "\n".join((self.folder / "log").read_text(errors="replace").splitlines()[-60:])

    def end(self):
        for process in self.processes.values():
            process.kill()
            process.wait()
        self.log.close()


@unittest.skipUnless(HAS_TORCHFT, "torchft is missing (pip install torchft)")
class Torchft(unittest.TestCase):
    def test_kills(self):
        from torchft.coordination import LighthouseServer

        lighthouse = LighthouseServer(bind="[::]:0", min_replicas=1, join_timeout_ms=200, quorum_tick_ms=50,
                                      heartbeat_timeout_ms=1000)
        self.addCleanup(lighthouse.shutdown)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        job = Job(folder.name, re.sub(r"//[^:]*:", "//127.0.0.1:", lighthouse.address()))
        self.addCleanup(job.end)
        draw = random.Random(SEED)
        for number in range(REPLICAS):
            job.start(number)
        for number in range(REPLICAS):
            job.wait_for_more_steps(number, 0, 3)
        for kill in range(KILLS):
            number = draw.randrange(REPLICAS)
            time.sleep(draw.uniform(0, 0.5))
            job.processes[number].kill()
            job.processes[number].wait()
            known = {other: len(job.steps(other)) for other in range(REPLICAS)}
            job.start(number)
            for other in known:  # the survivors go on, and the replica comes back
                job.wait_for_more_steps(other, known[other], 3)
        last = max(int(job.steps(number)[-1][0]) for number in range(REPLICAS)) + STEPS_AFTERWARDS
        (job.folder / "last").write_text(str(last))
        for number, process in job.processes.items():
            self.assertEqual(process.wait(LIMIT_S), 0, f"replica {number}:\n{job.tail()}")
        self.check_steps(job, last)
        self.check_messages(job)

    def check_steps(self, job, last):
        """Replicas that took the same step had the same parameters after it, bit for bit, also after they came back."""
        parameters = {}
        for number in range(REPLICAS):
            for step, digest in job.steps(number):
                self.assertEqual(parameters.setdefault(step, digest), digest, f"replica {number}, step {step}")
        self.assertIn(str(last), parameters)
        print(f"{KILLS} kills (seed {SEED}), {last} steps by {REPLICAS} replicas: equal parameters after each", flush=True)

    def check_messages(self, job):
        """Whatever Tutti says names a rank."""
        text = (job.folder / "log").read_text(errors="replace")
        sentences = set(re.findall(r"DistBackendError\S* (tutti: .*)", text))
        for sentence in sentences:
            self.assertRegex(sentence, r"\brank \d", sentence)
        print(f"{len(sentences)} different messages, such as: {min(sentences, default='none')}", flush=True)


if __name__ == "__main__":
    unittest.main()
