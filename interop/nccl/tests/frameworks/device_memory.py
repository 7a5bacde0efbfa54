"""Memory and streams of the fake GPU's device, for bindings that take addresses and bring no runtime that works on it.

Loaded by ctypes from the runtime that the loader finds first.
"""
import ctypes
import os
import time

runtime = ctypes.CDLL("libcudart.so.13")
runtime.cudaGetErrorString.restype = ctypes.c_char_p
FLOAT_BYTES = 4
ANY_DIRECTION = 4  # cudaMemcpyDefault: the addresses say which


def call(name, *arguments):
    code = getattr(runtime, name)(*arguments)
    if code != 0:
        raise RuntimeError(f"{name}: {runtime.cudaGetErrorString(code).decode()}")


def set_device(number):
    call("cudaSetDevice", number)


def new_stream():
    stream = ctypes.c_void_p()
    call("cudaStreamCreate", ctypes.byref(stream))
    return stream.value


def synchronize(stream):
    call("cudaStreamSynchronize", ctypes.c_void_p(stream))


class Floats:
    """An array on the device, with these values, or of that many elements."""

    def __init__(self, values):
        self.count = values if isinstance(values, int) else len(values)
        pointer = ctypes.c_void_p()
        call("cudaMalloc", ctypes.byref(pointer), ctypes.c_size_t(self.bytes))
        self.address = pointer.value
        if not isinstance(values, int):
            self._copy(self.address, (ctypes.c_float * self.count)(*values))

    @property
    def bytes(self):
        return self.count * FLOAT_BYTES

    def _copy(self, to, source):
        call("cudaMemcpy", ctypes.c_void_p(to) if isinstance(to, int) else to,
             ctypes.c_void_p(source) if isinstance(source, int) else source, ctypes.c_size_t(self.bytes), ANY_DIRECTION)

    def tolist(self):
        host = (ctypes.c_float * self.count)()
        self._copy(host, self.address)
        return list(host)

    def free(self):
        call("cudaFree", ctypes.c_void_p(self.address))


def share(name, make):
    """The bytes that `make` returns on rank 0, on every rank; by way of a file in the test's own folder."""
    path = os.path.join(os.environ["FRAMEWORKS_FOLDER"], name)
    if int(os.environ["RANK"]) == 0:
        with open(path + ".new", "wb") as file:
            file.write(make())
        os.rename(path + ".new", path)
    while not os.path.exists(path):
        time.sleep(0.01)
    with open(path, "rb") as file:
        return file.read()
