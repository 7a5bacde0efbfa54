"""The platform of SGLang that runs tensor parallelism on CPUs over Tutti (docs/vllm.md).

Only SGLang imports this module, in each of its processes, because the entry point `sglang.srt.platforms` names its class. The
platform is SGLang's own for CPUs, but for the backend of its process groups.
"""

from sglang.srt.platforms.cpu import CpuSRTPlatform


class Platform(CpuSRTPlatform):
    def get_torch_distributed_backend_str(self):
        return "tutti"
