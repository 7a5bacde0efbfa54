"""Programs started as users start them."""

import os
import shutil
import subprocess
import sys

import pytest

import ranks
import tutti.__main__

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


needs_program = pytest.mark.skipif(not tutti.__main__.PROGRAM.exists(), reason="the package has no program")
INSTALLED = os.path.join(os.path.dirname(sys.executable), "tutti")


@needs_program
@pytest.mark.parametrize("command", [[sys.executable, "-m", "tutti"], [INSTALLED]])
def test_the_package_has_the_program(command, tmp_path):
    assert lines([*command, "--version"]) == [f"tutti {tutti.__version__}"]
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + "sys.stdout.write(sys.prefix + '\\n')\n")
    # Where the environment is not activated, the ranks run in it all the same.
    printed = lines([*command, "run", "-n", "2", str(program)], PATH="/usr/bin:/bin")
    assert printed == sorted(["0 2 [0, 1]", "1 2 [0, 1]", sys.prefix, sys.prefix])
    ended = subprocess.run([*command, "run", "-n", "1", "false"], env=CLEAN, timeout=60, check=False, stderr=subprocess.DEVNULL)
    assert ended.returncode == 1


def test_a_package_without_the_program_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(tutti.__main__, "PROGRAM", tmp_path / "tutti")
    with pytest.raises(SystemExit, match="was built without the program"):
        tutti.__main__.main()


# PyTorch's store listens at MASTER_PORT, where the ranks would meet otherwise.
WITH_TORCH = """
import sys, tutti
import torch.distributed as dist
def init():
    dist.init_process_group("gloo")
if "torch first" in sys.argv:
    init()
with tutti.init() as comm, tutti.init() as again:
    if "torch first" not in sys.argv:
        init()
    assert (comm.rank, comm.size) == (again.rank, again.size) == (dist.get_rank(), dist.get_world_size())
    sys.stdout.write(f"{comm.rank} {comm.size} {again.all_reduce_object([comm.rank])}\\n")
dist.destroy_process_group()
"""


@needs_program
@pytest.mark.parametrize("first", ["torch first", "tutti first"])
def test_beside_torch(tmp_path, first):
    pytest.importorskip("torch.distributed")
    program = tmp_path / "program.py"
    program.write_text(WITH_TORCH)
    assert lines([sys.executable, "-m", "tutti", "run", "-n", "2", str(program), first]) == ["0 2 [0, 1]", "1 2 [0, 1]"]


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_a_library_of_another_version_is_refused(tmp_path):
    # As if another package, or LD_LIBRARY_PATH, had brought the library of the next minor version.
    source, library = tmp_path / "version.c", tmp_path / "version.so"
    major, minor = tutti.library_version()[:2]
    source.write_text(f"int tuttiGetVersion(int* version) {{ *version = {major * 10000 + (minor + 1) * 100}; return 0; }}")
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", library], check=True)
    done = subprocess.run([sys.executable, "-c", "import tutti"], stderr=subprocess.PIPE, text=True, check=False,
                          env={**CLEAN, "LD_PRELOAD": str(library)})
    assert done.returncode == 1
    assert f"tutti {tutti.__version__}, but libtutti {major}.{minor + 1}.0 is loaded" in done.stderr.splitlines()[-1]


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
