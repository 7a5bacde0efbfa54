"""Finds out from the environment how this process joins a job."""

from __future__ import annotations

import contextlib
import os
import zlib
from typing import Iterator

# The launchers' variables for a rank's number, in the library's order.
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
# Of MPI's launchers: the variables with the number of ranks, in the job and on this host.
_SIZES = (("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"), ("PMI_SIZE", "MPI_LOCALNRANKS"))
# Below the ports that Linux gives to connections (from 32768 on).
_FIRST_PORT, _PORTS = 15_000, 15_000


def is_alone() -> bool:
    """Whether no launcher has started this process: it is then a job of one rank.

    A batch script or an interactive shell of Slurm has SLURM_PROCID, too; srun also sets SLURM_STEP_NUM_TASKS.
    """
    named = [name for name in _RANKS if os.environ.get(name)]
    return not named or (named[0] == "SLURM_PROCID" and "SLURM_STEP_NUM_TASKS" not in os.environ)


def _local_port() -> int | None:
    """A port for a job of mpirun whose ranks are all on this host and that has no address to meet at; else None."""
    if any(os.environ.get(name) for name in ("MASTER_ADDR", "TUTTI_COMM_ID", "RANK", "SLURM_PROCID")):
        return None
    for size, local_size in _SIZES:
        if size in os.environ:
            if os.environ.get(local_size) != os.environ[size]:
                return None
            # The launcher is the parent of all its ranks on a host, unless a script is between them.
            job = os.environ.get("PMIX_NAMESPACE") or os.environ.get("OMPI_MCA_ess_base_jobid") or str(os.getppid())
            return _FIRST_PORT + zlib.crc32(job.encode()) % _PORTS
    return None


@contextlib.contextmanager
def meeting_place() -> Iterator[None]:
    """Sets MASTER_ADDR and MASTER_PORT while the ranks of an mpirun on one host join."""
    port = _local_port()
    if port is None:
        yield
        return
    names = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
