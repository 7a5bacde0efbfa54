import pytest

import tutti


@pytest.fixture
def alone(monkeypatch):
    """A communicator of this process alone."""
    for name in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"):
        monkeypatch.delenv(name, raising=False)
    with tutti.init() as comm:
        yield comm
