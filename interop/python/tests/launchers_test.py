"""Programs started as users start them."""

import os
import shutil
import subprocess
import sys

import pytest

import ranks

# One write for each line, because a launcher may mix the ranks' writes.
PROGRAM = """
import sys, tutti
with tutti.init() as comm:
    sys.stdout.write(f"{comm.rank} {comm.size} {comm.all_reduce_object([comm.rank])}\\n")
"""
CLEAN = {name: value for name, value in os.environ.items()
         if not name.startswith(("OMPI_", "PMI", "SLURM_", "RANK", "WORLD_SIZE", "MASTER_"))}


def lines(command, **environment):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env={**CLEAN, **environment})
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())


def test_alone():
    assert lines([sys.executable, "-c", PROGRAM]) == ["0 1 [0]"]
    # A batch script of Slurm, which no srun started.
    assert lines([sys.executable, "-c", PROGRAM], SLURM_PROCID="0", SLURM_NTASKS="8", SLURM_JOB_ID="1") == ["0 1 [0]"]


def test_torchrun_variables():
    port = ranks.free_port()
    started = [subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True,
                                env={**CLEAN, **ranks.environment(rank, 2, port)}) for rank in range(2)]
    assert [one.communicate(timeout=60)[0] for one in started] == ["0 2 [0, 1]\n", "1 2 [0, 1]\n"]


def test_slurm_variables():
    port = ranks.free_port()
    started = [subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, env={
        **CLEAN, "SLURM_PROCID": str(rank), "SLURM_NTASKS": "2", "SLURM_STEP_NUM_TASKS": "2", "SLURM_JOB_ID": str(port),
        "SLURM_STEP_ID": "0", "SLURM_JOB_NODELIST": "localhost"}) for rank in range(2)]
    assert [one.communicate(timeout=60)[0] for one in started] == ["0 2 [0, 1]\n", "1 2 [0, 1]\n"]


@pytest.mark.parametrize("launcher", [("mpirun.openmpi", "--oversubscribe", "--allow-run-as-root"), ("mpiexec.mpich",),
                                      ("mpiexec.hydra",)], ids=lambda launcher: launcher[0])
def test_mpirun_on_one_host(launcher):
    if shutil.which(launcher[0]) is None:
        pytest.skip(f"{launcher[0]} is not installed")
    wanted = [f"{rank} 3 [0, 1, 2]" for rank in range(3)]
    assert lines([*launcher, "-n", "3", sys.executable, "-c", PROGRAM]) == wanted
    # A script between the launcher and the rank.
    script = ["bash", "-c", '"$0" -c "$1"; exit', sys.executable, PROGRAM]
    assert lines([*launcher, "-n", "3", *script]) == wanted


def test_no_numpy():
    """The package works without NumPy."""
    program = """
import sys
sys.modules["numpy"] = None
import tutti
from array import array
with tutti.init() as comm:
    print(comm.all_reduce(array("i", [1, 2])).tolist(), comm.all_gather_object("x"))
"""
    assert lines([sys.executable, "-c", program]) == ["[1, 2] ['x']"]
