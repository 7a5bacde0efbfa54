"""The platform of vLLM that runs tensor parallelism on CPUs over Tutti (docs/vllm.md).

Only vLLM imports this module, in each of its processes, because the entry point `vllm.platform_plugins` names its class. The
platform is the one that vLLM would take for this CPU, but for the backend of its process groups and the communicator on top.
"""

import pkgutil

import vllm
from vllm.platforms import cpu_platform_plugin

CpuPlatform = pkgutil.resolve_name(cpu_platform_plugin())

if not getattr(CpuPlatform, "dist_backend", ""):
    raise ImportError(f"tutti_torch needs vLLM 0.10.2 or later, but this is vLLM {vllm.__version__}, whose workers on CPUs use "
                      "Gloo whatever the platform says; install a later vLLM, or set VLLM_PLUGINS=none to do without Tutti")


class Platform(CpuPlatform):
    dist_backend = "tutti"

    @classmethod
    def get_device_communicator_cls(cls):
        return "tutti_torch.vllm_communicator.Communicator"
