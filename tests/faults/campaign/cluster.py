"""Runs a trial on a cluster of namespaces (scripts/cluster.sh) and records its ranks' output."""

import dataclasses
import os
import pathlib
import subprocess
import tempfile
import time

from campaign.standstill import Standstill
from campaign.trial import INIT_TIMEOUT_MS

POLL_SECONDS = 0.02
# Time limit for a cluster's start, which is longer only if something is broken.
START_SECONDS = 60
# Time limit from the last rank's last output to the end of the cluster.
ENDING_SECONDS = 5
# Time limit for a cluster to end after SIGTERM.
STOP_SECONDS = 15
CANNOT = 77  # the exit status of scripts/cluster.sh if this machine cannot run clusters


@dataclasses.dataclass
class Record:
    output: str
    ended: bool  # whether the cluster ended by itself, within the time limit
    trouble: list  # acts that failed
    seconds: float
    acts_ms: float = 0.0  # from the start of the first act to the end of the last act
    standstill_ms: float = 0.0  # the longest time in which the machine did not run the campaign's own process


def wait_for(condition, seconds):
    """Whether `condition` becomes true within `seconds`."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(POLL_SECONDS)
    return True


def shorten_queues(length):
    """The command prefix for a rank's program that gives the ports of its host queues of this length."""
    script = f'echo {length} >/proc/sys/net/core/somaxconn; exec "$@"'
    return ["sh", "-c", script, "rank"] if length else []


class Cluster:
    def __init__(self, trial, source, program, name, folder):
        self.trial, self.source, self.name = trial, source, name
        self.out = pathlib.Path(folder) / "out"
        command = [self.script("scripts/cluster.sh"), "--name", name, "--hosts", trial.hosts]
        command += ["--ranks-per-host", trial.ranks_per_host, "--nics", trial.nics, "--grace", START_SECONDS]
        if trial.bandwidth:
            command += ["--bandwidth", trial.bandwidth]
        command += ["--", *shorten_queues(trial.queue), program, trial.seconds, trial.bytes, *trial.options]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")}
        environment |= trial.settings | {
            "FAULT_RUN": name,
            "TUTTI_SILENCE_MS": str(trial.silence_ms),
            "TUTTI_INIT_TIMEOUT_MS": str(INIT_TIMEOUT_MS),
        }
        with self.out.open("w") as out:
            self.process = subprocess.Popen(
                list(map(str, command)), stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment
            )

    def script(self, path):
        return str(self.source / path)

    def says(self):
        return self.out.read_text(errors="replace")

    def running(self):
        return self.process.poll() is None

    def await_words(self, words, count):
        return wait_for(
            lambda: not self.running() or sum(line.endswith(words) for line in self.says().splitlines()) >= count,
            START_SECONDS,
        )

    def act(self, act):
        """Performs the act. Returns None, or the reason for its failure."""
        if act.what == "control":
            command = [self.script("scripts/cluster.sh"), "--name", self.name, "--control", *act.arguments]
        else:
            command = [self.script("tests/faults/rank_trouble.sh"), self.name, *act.arguments]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        return f"{act}: {done.stdout}{done.stderr}".strip() if done.returncode != 0 else None

    def stop(self):
        if not self.running():
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def run(trial, source, program, name, limit_seconds):
    """Runs the trial to its end, or for `limit_seconds` after the last act."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fault-campaign-") as folder, Standstill() as standstill:
        cluster = Cluster(trial, source, program, name, folder)
        trouble, times = [], []
        try:
            if trial.early:
                cluster.await_words(" joins", 1)
            else:
                cluster.await_words(" runs", trial.ranks)
            for act in trial.acts:
                time.sleep(act.after_ms / 1000)
                times.append(time.monotonic())
                problem = cluster.act(act) if cluster.running() else None
                times.append(time.monotonic())
                # If all ranks have just ended, the act's failure does not matter.
                if problem and not wait_for(lambda: not cluster.running(), ENDING_SECONDS):
                    trouble.append(problem)
            ended = wait_for(lambda: not cluster.running(), limit_seconds)
            if cluster.process.returncode == CANNOT:
                raise NotImplementedError(cluster.says())
        finally:
            cluster.stop()
        acts_ms = 1000 * (times[-1] - times[0]) if times else 0.0
        return Record(cluster.says(), ended, trouble, time.monotonic() - began, acts_ms, standstill.longest_ms)
