"""The communicator of vLLM's groups on CPUs: calls on tensors go to torch.distributed, whose backend is Tutti.

It is not in vllm_platform.py, because its base class needs a platform that vLLM has chosen.
"""

import torch
from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator


class Communicator(CpuCommunicator):
    """REQUIRES: the device group's backend is `tutti`, as vllm_platform.Platform says."""

    def __init__(self, cpu_group, device=None, device_group=None, unique_name="", **options):
        # The base class makes vLLM's own shared memory for groups whose names begin with tp or pp.
        super().__init__(cpu_group, device, device_group, f"tutti {unique_name}", **options)
        self.unique_name = unique_name

    def all_reduce(self, input_):
        if torch.compiler.is_compiling():  # it knows torch.distributed's calls, not those of its groups
            return super().all_reduce(input_)
        # torch.distributed.all_reduce takes as long around this call as Tutti in it, for a token's hidden state.
        self.device_group.allreduce([input_]).wait()
        return input_
