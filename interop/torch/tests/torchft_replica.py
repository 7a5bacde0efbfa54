"""One replica of a training by torchft over Tutti, a process that may be killed at any moment (torchft_test.py).

    python torchft_replica.py LIGHTHOUSE NUMBER FOLDER

Appends a line "STEP HASH" to FOLDER/NUMBER.steps for each step that it takes, with the hash of its parameters after the step,
and ends after the step that FOLDER/last names.
"""

import hashlib
import logging
import os
import sys
from datetime import timedelta

import torch
import torchft
from torch.distributed import TCPStore

from tutti_torch.torchft import ProcessGroupTutti

LIMIT = timedelta(seconds=20)  # much longer than a step takes; a death is noticed within a second

logging.basicConfig(level=logging.INFO)
logging.getLogger("torchft").setLevel(logging.INFO)
torch.set_num_threads(1)
torch.manual_seed(0)
lighthouse, number, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
inner = torch.optim.Adam(model.parameters())


def load(state):
    model.load_state_dict(state["model"])
    inner.load_state_dict(state["optimizer"])


manager = torchft.Manager(
    pg=ProcessGroupTutti(timeout=LIMIT), min_replica_size=1, load_state_dict=load,
    state_dict=lambda: {"model": model.state_dict(), "optimizer": inner.state_dict()}, replica_id=f"replica_{number}",
    lighthouse_addr=lighthouse, store_addr="127.0.0.1", store_port=store.port, rank=0, world_size=1, hostname="127.0.0.1",
    timeout=LIMIT, quorum_timeout=LIMIT, connect_timeout=LIMIT, use_async_quorum=False)
optimizer = torchft.Optimizer(manager, inner)


def last_step():
    try:
        with open(os.path.join(folder, "last")) as file:
            return int(file.read() or sys.maxsize)
    except FileNotFoundError:
        return sys.maxsize


while manager.current_step() < last_step():
    before = manager.current_step()
    data = torch.Generator().manual_seed(1000 * before + number)
    inputs = torch.randn(16, 32, generator=data)
    optimizer.zero_grad()
    (model(inputs) - inputs[:, :8]).square().mean().backward()
    # Not by torchft.DistributedDataParallel: that of 0.2.0 has an assertion that fails when a peer dies, with Gloo, too.
    works = [manager.allreduce(parameter.grad) for parameter in model.parameters()]
    for work in works:
        work.wait()
    optimizer.step()
    if manager.current_step() > before:
        parameters = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
        digest = hashlib.sha256(parameters.numpy().tobytes()).hexdigest()[:16]
        with open(os.path.join(folder, f"{number}.steps"), "a") as file:
            file.write(f"{manager.current_step()} {digest}\n")
manager.shutdown()
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)  # the threads of torchft need not end first
