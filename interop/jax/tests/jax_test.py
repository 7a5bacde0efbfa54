"""Plain JAX programs over Tutti, in several processes. Run by scripts/interop/jax.sh, where jax and tutti are installed."""

import os
import pathlib
import re
import socket
import subprocess
import sys

import pytest

import tutti.jax

PROGRAMS = pathlib.Path(__file__).parent / "programs"
CLUSTER = pathlib.Path(__file__).parents[3] / "scripts/cluster.sh"
PATIENCE = 240  # seconds


def start(program, processes, devices=1, coordinator=None, **environment):
    """The processes of a job; environment: more variables, a list where each process has its own."""
    if coordinator is None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            coordinator = f"127.0.0.1:{free.getsockname()[1]}"
    job = []
    for process in range(processes):
        own = {name: value[process] if isinstance(value, list) else value for name, value in environment.items()}
        job.append(subprocess.Popen(
            [sys.executable, str(PROGRAMS / program)], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(devices),
                 "JAX_TEST_PROCESS": str(process), "JAX_TEST_PROCESSES": str(processes),
                 "JAX_TEST_COORDINATOR": coordinator, "MPITRAMPOLINE_LIB": tutti.jax.LIBRARY, **own}))
    return job


def ends_of(job):
    """(status, output, errors) of each process."""
    ends = []
    try:
        for process in job:
            output, errors = process.communicate(timeout=PATIENCE)
            ends.append((process.returncode, output, errors))
    finally:
        for process in job:
            process.kill()
    return ends


def outputs(job, status=0):
    ends = ends_of(job)
    for code, output, errors in ends:
        assert code == status, f"status {code}\n{output}\n{errors[-4000:]}"
    return [output for _, output, _ in ends]


@pytest.mark.parametrize("processes, devices", [(2, 1), (4, 1), (2, 2)])
@pytest.mark.parametrize("program", ["collectives.py", "meshes.py"])
def test_numbers(program, processes, devices):
    assert all("right" in output for output in outputs(start(program, processes, devices)))


@pytest.mark.parametrize("processes, devices", [(2, 2), (2, 4)])
def test_communicators_at_the_same_time(processes, devices):
    assert all("right" in output for output in outputs(start("concurrent.py", processes, devices)))


def test_a_dead_process_is_named():
    processes = 3
    ends = ends_of(start("killed.py", processes))
    pid = re.search(r"pid (\d+)", ends[-1][1]).group(1)
    for process, (code, output, errors) in enumerate(ends[:-1]):
        assert code == 0, errors
        assert re.search(rf"process {process}: .*rank {processes - 1} \(host \S+, pid {pid}\) died while .*"
                         r"all_reduce\(count=16, float32, sum\) as operation 2", output), output


def test_a_process_that_is_not_over_tutti():
    job = start("first_call.py", 2, TUTTI_INIT_TIMEOUT_MS="5000", JAX_CPU_COLLECTIVES_IMPLEMENTATION=["mpi", "gloo"])
    try:
        told = job[0].stdout.readline()  # its end would wait for process 1, which waits in Gloo
        assert "process 1 has not come to Tutti within 5 s: does it run, and with Tutti as its CPU collectives?" in told
    finally:
        for process in job:
            process.kill()
            process.communicate()


def test_gloo_is_used_where_it_is_asked_for():
    job = start("first_call.py", 2, JAX_CPU_COLLECTIVES_IMPLEMENTATION="gloo")
    assert all("the sum is 2.0" in output for output in outputs(job))


def test_register_in_a_program(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(f"import sys, tutti.jax\ntutti.jax.register()\nsys.path.insert(0, {str(PROGRAMS)!r})\n"
                       "import jax, first_call\nprint('over', jax.config.jax_cpu_collectives_implementation)\n")
    job = start(program, 2, MPITRAMPOLINE_LIB="")
    assert all("the sum is 2.0" in output and "over mpi" in output for output in outputs(job))


def test_register_after_jax():
    done = subprocess.run([sys.executable, "-c", "import jax, tutti.jax\ntutti.jax.register()"], capture_output=True,
                          text=True, timeout=PATIENCE)
    assert "tutti.jax.register() comes after the first import of jax: call it before" in done.stderr


def test_types_that_jaxlib_hands_to_no_mpi():
    """They are an error of JAX, not a wrong sum."""
    job = start("first_call.py", 2, JAX_TEST_TYPE="float16")
    assert all("Unsupported primitive type for reduction: f16" in output for output in outputs(job))


@pytest.mark.parametrize("secret", [None, "a text that both hosts have"])
def test_two_hosts(secret):
    """Hosts are namespaces of this machine."""
    names = {"JAX_PLATFORMS": "cpu", "JAX_TEST_PROCESSES": "2", "JAX_TEST_COORDINATOR": "10.77.0.1:29511",
             "MPITRAMPOLINE_LIB": tutti.jax.LIBRARY}
    secrets = f"TUTTI_SECRET='{secret}'" if secret else "-u TUTTI_SECRET"  # else that of cluster.sh
    command = f'exec env {secrets} JAX_TEST_PROCESS=$HOST_INDEX "{sys.executable}" "{PROGRAMS}/first_call.py"'
    done = subprocess.run([CLUSTER, "--hosts", "2", "--each-host", "--grace", "5", "--", "bash", "-c", command],
                          capture_output=True, text=True, timeout=PATIENCE,
                          env={**os.environ, **names})
    if done.returncode == 77:
        pytest.skip(done.stdout.strip().splitlines()[-1])
    said = "the sum is 2.0" if secret else "the processes are on several hosts, and TUTTI_SECRET is not set"
    assert done.stdout.count(said) == 2, done.stdout + done.stderr
