"""Tutti as a process group of torchft, which trains on when replicas die and come back (docs/pytorch.md).

    from tutti_torch.torchft import ProcessGroupTutti
    manager = torchft.Manager(pg=ProcessGroupTutti(timeout=timedelta(seconds=10)), ...)

torchft tells it the members after each change. `timeout` is that of each group's operations.
"""

import torch
import torchft

import tutti_torch


class ProcessGroupTutti(torchft.process_group.ProcessGroupWrapper):
    def _create_pg(self, store, rank, world_size):
        kind = torch.distributed.ProcessGroup.BackendType.CUSTOM
        backend = tutti_torch._C.create(store, rank, world_size, self._timeout.total_seconds(), f"quorum {self._quorum_id}",
                                        list(self._global_ranks or []))
        group = torch.distributed.ProcessGroup(store, rank, world_size)
        group._set_default_backend(kind)
        for device in tutti_torch.DEVICES:
            group._register_backend(torch.device(device), kind, backend)
        return group

    def getBackendName(self):
        return "torchft-tutti"
