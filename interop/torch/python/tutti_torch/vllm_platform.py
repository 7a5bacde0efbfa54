"""The platform of vLLM that runs tensor parallelism on CPUs over Tutti (docs/vllm.md).

Only vLLM imports this module, in each of its processes, because the entry point `vllm.platform_plugins` names its class. The
platform is the one that vLLM would take for this CPU, but for the backend of its process groups and the communicator on top.
"""

import vllm
from vllm.platforms import cpu_platform_plugin
from vllm.utils.import_utils import resolve_obj_by_qualname

CpuPlatform = resolve_obj_by_qualname(cpu_platform_plugin())


class Platform(CpuPlatform):
    dist_backend = "tutti"

    @classmethod
    def get_device_communicator_cls(cls):
        return "tutti_torch.vllm_communicator.Communicator"
