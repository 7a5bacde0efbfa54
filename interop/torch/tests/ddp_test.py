"""Tests DistributedDataParallel with a small model: it computes the same on tutti as on gloo. Also tests torchrun."""

import os
import subprocess
import sys
import tempfile
import unittest

import torch
import torch.distributed as dist

import ranks

STEPS = 5

PROGRAM = """
import torch, torch.distributed as dist, tutti_torch
dist.init_process_group('tutti')
one = torch.ones(1)
dist.all_reduce(one)
print(f'{int(one)} ranks are here', flush=True)
dist.destroy_process_group()
"""


def ddp_or_reason():
    """DistributedDataParallel and None, or None and the reason why this PyTorch cannot import it."""
    try:
        from torch.nn.parallel import DistributedDataParallel

        import torch.distributed.rpc  # noqa: F401  (DistributedDataParallel imports it when created)
        from torch.distributed._shard import sharded_tensor  # noqa: F401
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"
    return DistributedDataParallel, None


DDP, REASON = ddp_or_reason()


def train(rank, n, options):
    """Losses and parameters of a few steps. Buckets are small, so that there are several."""
    torch.manual_seed(rank)  # ranks differ at first; DDP gives all ranks rank 0's parameters
    model = torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.ReLU(), torch.nn.BatchNorm1d(300),
                                torch.nn.Linear(300, 300), torch.nn.ReLU(), torch.nn.Linear(300, 3))
    model = DDP(model, bucket_cap_mb=0.1, **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(100 * step + rank)
        inputs = torch.randn(16, 20, generator=generator)
        targets = torch.randint(0, 3, (16,), generator=generator)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [parameter.detach().clone().numpy() for parameter in model.parameters()]


class Ddp(unittest.TestCase):
    @unittest.skipIf(DDP is None, f"this PyTorch cannot import DistributedDataParallel: {REASON}")
    def test_equals_gloo(self):
        for n in (2, 3):
            for options in ({}, {"gradient_as_bucket_view": True}, {"static_graph": True}):
                with self.subTest(ranks=n, options=options):
                    on_tutti = ranks.run(n, train, n, options)
                    on_gloo = ranks.run(n, train, n, options, backend="gloo")
                    for (losses, parameters), (gloo_losses, gloo_parameters) in zip(on_tutti, on_gloo):
                        for a, b in zip(losses, gloo_losses):
                            self.assertAlmostEqual(a, b, places=5)
                        for a, b in zip(parameters, gloo_parameters):
                            # Two addends have the same sum in any order; with three, rounding may differ.
                            torch.testing.assert_close(torch.from_numpy(a), torch.from_numpy(b),
                                                       **({"rtol": 0, "atol": 0} if n == 2 else {}))
                    for _, parameters in on_tutti[1:]:
                        for a, b in zip(parameters, on_tutti[0][1]):
                            self.assertTrue((a == b).all(), "ranks have different parameters")

    def test_torchrun(self):
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "program.py")
            with open(program, "w") as file:
                file.write(PROGRAM)
            run = subprocess.run([sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone",
                                  "--nproc_per_node=3", program], capture_output=True, text=True, timeout=120)
            if "'NoneType' object has no attribute 'get'" in run.stderr and "to_map" in run.stderr:
                self.skipTest("this PyTorch's torchrun does not run on this Python: it fails before it starts a rank "
                              "(elastic/multiprocessing/api.py, to_map)")
            self.assertEqual(run.stdout.count("3 ranks are here"), 3, run.stdout + run.stderr)

    def test_variables_of_torchrun(self):
        port = ranks.free_port()
        children = []
        for rank in range(3):
            variables = {"RANK": str(rank), "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            children.append(subprocess.Popen([sys.executable, "-W", "ignore", "-c", PROGRAM], stdout=subprocess.PIPE,
                                             env={**os.environ, **variables}, text=True))
        for child in children:
            self.assertEqual(child.communicate(timeout=120)[0], "3 ranks are here\n")
            self.assertEqual(child.returncode, 0)


if __name__ == "__main__":
    unittest.main()
