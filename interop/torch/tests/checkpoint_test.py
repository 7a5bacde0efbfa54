"""Tests torch.distributed.checkpoint: what ranks save, sync and async, another number of ranks loads."""

import os
import tempfile
import unittest

import torch
import torch.distributed as dist

import ranks

try:
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    REASON = None
except Exception as error:
    REASON = f"{type(error).__name__}: {error}"

WHOLE = {"a": (6, 5), "b": (13,)}  # shapes


def state(n, fill):
    """Tensors in uneven shards over all ranks, and a plain number."""
    mesh = init_device_mesh("cpu", (n,))
    tensors = {name: distribute_tensor(fill(shape), mesh, [Shard(0)]) for name, shape in WHOLE.items()}
    return {"model": tensors, "step": 7 if fill is numbered else 0}


def numbered(shape):
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape)


def save(rank, n, folder, in_background):
    if in_background:
        checkpoint.async_save(state(n, numbered), checkpoint_id=folder).result()
    else:
        checkpoint.save(state(n, numbered), checkpoint_id=folder)
    dist.barrier()


def load(rank, n, folder):
    got = state(n, torch.zeros)
    checkpoint.load(got, checkpoint_id=folder)
    assert got["step"] == 7, got["step"]
    for name, shape in WHOLE.items():
        assert torch.equal(got["model"][name].full_tensor(), numbered(shape)), name


@unittest.skipIf(REASON is not None, REASON)
class CheckpointTest(unittest.TestCase):
    def test_saves_and_loads(self):
        for in_background in (False, True):
            for saving, loading in ((2, 2), (2, 3), (4, 1)):
                with self.subTest(in_background=in_background, saving=saving, loading=loading):
                    with tempfile.TemporaryDirectory() as folder:
                        # PyTorch's asynchronous saving asks for a group that has a backend for the host.
                        backend = "cpu:tutti"
                        ranks.run(saving, save, saving, os.path.join(folder, "it"), in_background, backend=backend)
                        ranks.run(loading, load, loading, os.path.join(folder, "it"), backend=backend)


if __name__ == "__main__":
    unittest.main()
