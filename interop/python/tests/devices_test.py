"""Arrays on a GPU, on the fake GPU's driver (testing/fake_gpu), which needs no GPU.

TUTTI_FAKE_GPU names its folder; run.sh sets it. Without it the tests are skipped.
"""

import ctypes
import os

import numpy as np
import pytest

import ranks
import tutti

FAKE_GPU = os.environ.get("TUTTI_FAKE_GPU", "")
pytestmark = pytest.mark.skipif(not os.path.exists(os.path.join(FAKE_GPU, "libcuda.so.1")), reason="no fake GPU")
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2


class Cuda:
    """CUDA's runtime, as far as these tests need it. The driver must be loaded before the runtime looks for it."""

    def __init__(self):
        ctypes.CDLL(os.path.join(FAKE_GPU, "libcuda.so.1"), mode=ctypes.RTLD_GLOBAL)
        self._runtime = ctypes.CDLL(os.path.join(FAKE_GPU, "libcudart.so.13"))
        self("cudaSetDevice", 0)
        self("cudaFree", None)  # makes the context

    def __call__(self, name, *arguments):
        result = getattr(self._runtime, name)(*arguments)
        assert result == 0, f"{name} returned {result}"

    def array(self, host):
        return DeviceArray(self, host)

    def stream(self):
        stream = ctypes.c_void_p()
        self("cudaStreamCreate", ctypes.byref(stream))
        return stream.value


class DeviceArray:
    """An array of a GPU, which lends its memory as Numba's do."""

    def __init__(self, cuda, host):
        self._cuda, self._host = cuda, np.array(host)
        self._data = ctypes.c_void_p()
        cuda("cudaMalloc", ctypes.byref(self._data), ctypes.c_size_t(max(1, self._host.nbytes)))
        cuda("cudaMemcpy", self._data, self._host.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(self._host.nbytes),
             HOST_TO_DEVICE)

    @property
    def __cuda_array_interface__(self):
        return {**{key: self._host.__array_interface__[key] for key in ("shape", "typestr")}, "version": 3,
                "data": (self._data.value, False), "strides": None}

    def numpy(self):
        out = np.empty_like(self._host)
        self._cuda("cudaMemcpy", out.ctypes.data_as(ctypes.c_void_p), self._data, ctypes.c_size_t(out.nbytes),
                   DEVICE_TO_HOST)
        return out


class TorchStream:
    def __init__(self, number):
        self.cuda_stream = number


def on_a_device(hosts):
    """In a communicator with a device, which the ranks of `hosts`, one without, make."""
    assert hosts.device == -1
    rank, size = hosts.rank, hosts.size
    id = hosts.broadcast_object(tutti.unique_id() if rank == 0 else None)
    cuda = Cuda()
    with tutti.init(rank, size, id, device=0) as comm:
        assert comm.device == 0
        mine, out = cuda.array(np.arange(1000.0) + rank), cuda.array(np.zeros(1000))
        for stream in (None, cuda.stream(), TorchStream(cuda.stream())):
            assert comm.all_reduce(mine, out, stream=stream) is out
            cuda("cudaDeviceSynchronize")
            assert (out.numpy() == sum(np.arange(1000.0) + peer for peer in range(size))).all()
        stream = cuda.stream()
        got = cuda.array(np.zeros(1000))
        with tutti.group():
            comm.send(mine, (rank + 1) % size, stream=stream)
            comm.recv(got, (rank - 1) % size, stream=stream)
        cuda("cudaDeviceSynchronize")
        assert (got.numpy() == np.arange(1000.0) + (rank - 1) % size).all()
        with tutti.Stream() as host, pytest.raises(tutti.InvalidArgumentError, match="a GPU"):
            comm.all_reduce(mine, out, stream=host)
        with pytest.raises(tutti.InvalidArgumentError, match="pass recv"):
            comm.all_reduce(mine)
        with pytest.raises(tutti.InvalidArgumentError, match="one of send and recv lies on a GPU"):
            comm.all_reduce(mine, np.zeros(1000))
        comm.barrier(stream=stream)
        cuda("cudaDeviceSynchronize")


def test_arrays_on_a_gpu():
    ranks.run(2, on_a_device)
