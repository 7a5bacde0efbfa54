import pytest

import tutti

try:
    import torch
except ImportError:
    pass
else:
    # PyTorch imports much at its first backward pass and its first optimiser: here once, and not in every forked rank.
    torch.set_num_threads(1)
    _parameter = torch.nn.Parameter(torch.ones(1))
    (_parameter * 1).backward(torch.ones(1))
    torch.optim.Adam([_parameter])


@pytest.fixture
def alone(monkeypatch):
    """A communicator of this process alone."""
    for name in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"):
        monkeypatch.delenv(name, raising=False)
    with tutti.init() as comm:
        yield comm
