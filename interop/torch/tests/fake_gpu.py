"""A device for these tests: fake_gpu_device.cc as PyTorch's `privateuseone`, on the driver of testing/fake_gpu.

    path = fake_gpu.build(folder)          in the parent
    device = fake_gpu.Device(path)         in each rank
"""

import importlib.util
import os
import subprocess
import sysconfig
import types

import torch

import tutti_torch

DRIVER = os.path.join(os.environ.get("TUTTI_FAKE_GPU", ""), "libcuda.so.1")
MODULE = "fake_gpu_device"


def is_there():
    return os.path.exists(DRIVER)


def headers_of_cuda():
    from torch.utils.cpp_extension import CUDA_HOME

    home = [os.path.join(CUDA_HOME, "include")] if CUDA_HOME else []
    for place in home + ["/usr/local/cuda/include", "/usr/include"]:
        if os.path.exists(os.path.join(place, "cuda.h")):
            return place
    return None


def build(folder):
    """Builds the device as a Python module in `folder`. Returns its path."""
    from torch.utils.cpp_extension import include_paths, library_paths

    target = os.path.join(folder, MODULE + ".so")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), MODULE + ".cc")
    if os.path.exists(target) and os.path.getmtime(target) > os.path.getmtime(source):
        return target
    includes = include_paths() + [sysconfig.get_paths()["include"], headers_of_cuda()]
    subprocess.run(["c++", "-std=c++20", "-O1", "-fPIC", "-shared", f"-DTORCH_EXTENSION_NAME={MODULE}",
                    f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"]
                   + [word for path in includes for word in ("-isystem", path)]
                   + [source, "-o", target] + [f"-L{path}" for path in library_paths()]
                   + ["-lc10", "-ltorch", "-ltorch_cpu", "-ltorch_python", DRIVER,
                      f"-Wl,-rpath,{os.path.dirname(DRIVER)}"], check=True)
    return target


def of_pytorch(module):
    """The module that PyTorch expects as torch.privateuseone."""
    like_cuda = types.ModuleType("privateuseone")
    like_cuda._lazy_init = lambda: None
    like_cuda._is_in_bad_fork = lambda: False
    like_cuda.is_available = lambda: True
    like_cuda.current_device = module.get_device
    return like_cuda


class Device:
    """The device of one rank. Must be created in the rank's process, because the parent must not load CUDA's driver."""

    def __init__(self, path, index=0):
        spec = importlib.util.spec_from_file_location(MODULE, path)
        self.module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)
        if not hasattr(torch, "privateuseone"):
            torch._register_device_module("privateuseone", of_pytorch(self.module))
        tutti_torch._C.take_devices_of("privateuseone", self.module.native_stream())
        self.index, self.name = index, f"privateuseone:{index}"
        self.module.set_device(index)

    def full(self, count, value, dtype=torch.float32):
        return torch.full((count,), value, dtype=dtype).to(self.name)

    def fulls(self, n, count, value):
        return [self.full(count, value) for _ in range(n)]

    def empty(self, count):
        return torch.empty(count, device=self.name)
