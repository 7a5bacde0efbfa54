"""The functions that PyTorch, vLLM and SGLang call when they start, by the package's entry points.

They are not in the package, because importing it fails beside a PyTorch that it was not built for, and that must not make
`import torch` fail. Nothing here imports vLLM or SGLang before they do.
"""

import os
import warnings


def register():
    """PyTorch 2.5 and later calls this when it is imported (entry point `torch.backends`)."""
    try:
        import tutti_torch  # noqa: F401
    except ImportError as error:
        warnings.warn(f"backend tutti of torch.distributed is not available: {error}", stacklevel=2)


def vllm_platform():
    """vLLM calls this (entry point `vllm.platform_plugins`). Returns the name of the platform's class, or None if not on CPUs."""
    from vllm.platforms import cpu_platform_plugin
    return "tutti_torch.vllm_platform.Platform" if cpu_platform_plugin() else None


def sglang_platform():
    """SGLang calls this (entry point `sglang.srt.platforms`). Returns what vllm_platform does."""
    on_cpus = os.environ.get("SGLANG_USE_CPU_ENGINE") == "1"  # as SGLang itself decides
    return "tutti_torch.sglang_platform.Platform" if on_cpus else None
