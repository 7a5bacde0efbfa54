#!/usr/bin/env python3
"""Tests a client like those in inference engines: it calls NCCL's functions through ctypes, passes buffers by address,
and its processes share only an id. Here the buffers are NumPy arrays.

    ctypes_test.py libnccl.so.2         exit status 77: NumPy is missing, so nothing was tested
"""

import ctypes
import multiprocessing
import sys

try:
    import numpy
except ImportError:
    print("NumPy is missing (Debian: python3-numpy)")
    sys.exit(77)

SUCCESS = 0
INVALID_ARGUMENT = 4
TYPES = {"int8": 0, "uint8": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5, "float16": 6, "float32": 7, "float64": 8}
OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4}
REDUCE = {"sum": numpy.sum, "prod": numpy.prod, "max": numpy.max, "min": numpy.min}
COUNT = 3000
DEADLINE_S = 60


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


class NcclError(RuntimeError):
    def __init__(self, code, message):
        super().__init__(f"{code}: {message}")
        self.code = code


class Nccl:
    """The library's functions as methods, named without the prefix "nccl". A failure raises NcclError."""

    comm = window = stream = buffer = ctypes.c_void_p
    number = ctypes.c_int
    size = ctypes.c_size_t
    signatures = {
        "GetVersion": [ctypes.POINTER(number)],
        "GetUniqueId": [ctypes.POINTER(UniqueId)],
        "CommInitRank": [ctypes.POINTER(comm), number, UniqueId, number],  # the id by value
        "CommDestroy": [comm],
        "CommCount": [comm, ctypes.POINTER(number)],
        "AllReduce": [buffer, buffer, size, number, number, comm, stream],
        "Reduce": [buffer, buffer, size, number, number, number, comm, stream],
        "AllGather": [buffer, buffer, size, number, comm, stream],
        "ReduceScatter": [buffer, buffer, size, number, number, comm, stream],
        "Broadcast": [buffer, buffer, size, number, number, comm, stream],
        "Send": [buffer, size, number, number, comm, stream],
        "Recv": [buffer, size, number, number, comm, stream],
        "GroupStart": [],
        "GroupEnd": [],
        "MemAlloc": [ctypes.POINTER(buffer), size],
        "MemFree": [buffer],
        "CommWindowRegister": [comm, buffer, size, ctypes.POINTER(window), number],
        "CommWindowDeregister": [comm, window],
    }

    def __init__(self, path):
        library = ctypes.CDLL(path)
        self.error_string = library.ncclGetErrorString
        self.last_error = library.ncclGetLastError
        self.error_string.argtypes, self.error_string.restype = [ctypes.c_int], ctypes.c_char_p
        self.last_error.argtypes, self.last_error.restype = [ctypes.c_void_p], ctypes.c_char_p
        for name, arguments in self.signatures.items():
            function = getattr(library, "nccl" + name)
            function.argtypes, function.restype = arguments, ctypes.c_int
            setattr(self, name, self.raising(function))

    def raising(self, function):
        def call(*arguments):
            code = function(*arguments)
            if code != SUCCESS:
                raise NcclError(code, f"{self.error_string(code).decode()}: {self.last_error(None).decode()}")

        return call


def check_equal(got, wanted, what):
    if not numpy.array_equal(got, wanted):
        raise AssertionError(f"{what}: {got[:8]}... is not {wanted[:8]}...")


class Client:
    def __init__(self, path, rank, ranks, unique_id):
        self.nccl, self.rank, self.ranks = Nccl(path), rank, ranks
        self.comm = ctypes.c_void_p()
        self.stream = ctypes.c_void_p(0x1234)  # ignored without a device
        self.nccl.CommInitRank(ctypes.byref(self.comm), ranks, UniqueId.from_buffer_copy(unique_id), rank)

    def inputs(self, dtype, count):
        """The inputs of every rank, small enough for products in any type."""
        return numpy.array([(numpy.arange(count) + rank) % 3 + 1 for rank in range(self.ranks)], dtype=dtype)

    def reductions(self, dtype, op):
        inputs = self.inputs(dtype, COUNT * self.ranks)
        mine, output = inputs[self.rank].copy(), numpy.zeros(COUNT * self.ranks, dtype)
        wanted = REDUCE[op](inputs, axis=0).astype(dtype)
        typed = (TYPES[dtype], OPS[op])
        self.nccl.AllReduce(mine.ctypes.data, output.ctypes.data, mine.size, *typed, self.comm, self.stream)
        check_equal(output, wanted, f"all-reduce of {dtype} by {op}")
        output[:] = 0
        self.nccl.Reduce(mine.ctypes.data, output.ctypes.data, mine.size, *typed, 1, self.comm, self.stream)
        check_equal(output, wanted if self.rank == 1 else output * 0, f"reduce of {dtype} by {op}")
        share = numpy.zeros(COUNT, dtype)
        self.nccl.ReduceScatter(mine.ctypes.data, share.ctypes.data, COUNT, *typed, self.comm, self.stream)
        check_equal(share, wanted[COUNT * self.rank : COUNT * (self.rank + 1)], f"reduce-scatter of {dtype} by {op}")

    def moves(self, dtype):
        inputs = self.inputs(dtype, COUNT)
        mine, everything = inputs[self.rank].copy(), numpy.zeros(COUNT * self.ranks, dtype)
        self.nccl.AllGather(mine.ctypes.data, everything.ctypes.data, COUNT, TYPES[dtype], self.comm, self.stream)
        check_equal(everything, inputs.reshape(-1), f"all-gather of {dtype}")
        received = numpy.zeros(COUNT, dtype)
        self.nccl.Broadcast(mine.ctypes.data, received.ctypes.data, COUNT, TYPES[dtype], 1, self.comm, self.stream)
        check_equal(received, inputs[1], f"broadcast of {dtype}")
        before, after = (self.rank - 1) % self.ranks, (self.rank + 1) % self.ranks
        self.nccl.GroupStart()
        self.nccl.Send(mine.ctypes.data, COUNT, TYPES[dtype], after, self.comm, self.stream)
        self.nccl.Recv(received.ctypes.data, COUNT, TYPES[dtype], before, self.comm, self.stream)
        self.nccl.GroupEnd()
        check_equal(received, inputs[before], f"send and receive of {dtype}")

    def window(self):
        size = COUNT * 4
        memory, window = ctypes.c_void_p(), ctypes.c_void_p()
        self.nccl.MemAlloc(ctypes.byref(memory), size)
        self.nccl.CommWindowRegister(self.comm, memory, size, ctypes.byref(window), 1)
        array = numpy.frombuffer((ctypes.c_float * COUNT).from_address(memory.value), numpy.float32)
        array[:] = self.rank + 1
        self.nccl.AllReduce(memory, memory, COUNT, TYPES["float32"], OPS["sum"], self.comm, None)
        check_equal(array, numpy.full(COUNT, sum(range(1, self.ranks + 1)), numpy.float32), "all-reduce in a window")
        self.nccl.CommWindowDeregister(self.comm, window)
        self.nccl.MemFree(memory)

    def errors(self):
        try:
            self.nccl.AllReduce(None, None, 1, 99, 0, self.comm, None)
        except NcclError as error:
            if error.code == INVALID_ARGUMENT and "datatype" in str(error):
                return
            raise
        raise AssertionError("a type that is none was accepted")

    def run(self):
        version, count = ctypes.c_int(), ctypes.c_int()
        self.nccl.GetVersion(ctypes.byref(version))
        self.nccl.CommCount(self.comm, ctypes.byref(count))
        check_equal(numpy.array([version.value // 10000, count.value]), [2, self.ranks], "version and ranks")
        for dtype in TYPES:
            for op in REDUCE:
                self.reductions(dtype, op)
            self.moves(dtype)
        self.window()
        self.errors()
        self.nccl.CommDestroy(self.comm)


def run_rank(*arguments):
    Client(*arguments).run()


def run_ranks(path, ranks, unique_id):
    # Spawned, not forked, so that a rank does not depend on what its parent has loaded.
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=run_rank, args=(path, rank, ranks, unique_id)) for rank in range(ranks)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(DEADLINE_S)
        process.kill()
        process.join()
    statuses = [process.exitcode for process in processes]
    print(f"{ranks} processes ended with {statuses}")
    return not any(statuses)


def main():
    path = sys.argv[1]
    nccl = Nccl(path)
    right = True
    for ranks in (2, 4):
        unique_id = UniqueId()
        nccl.GetUniqueId(ctypes.byref(unique_id))
        right = run_ranks(path, ranks, bytes(unique_id)) and right
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
