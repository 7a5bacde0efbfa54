"""Which objects lend memory, and what is said about those that do not. One rank is enough."""

import ctypes
import sys
from array import array

import ml_dtypes
import numpy as np
import pytest

import ranks
import tutti


class Dlpack:
    """An array that lends its memory by DLPack alone, as PyTorch's tensors do."""

    def __init__(self, lent):
        self.lent = lent

    def __dlpack__(self, **options):
        return self.lent.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.lent.__dlpack_device__()


def test_dlpack_in_both_directions(alone):
    out = np.zeros(5, np.float32)
    given = Dlpack(out)
    assert alone.all_reduce(Dlpack(np.arange(5, dtype=np.float32)), given) is given
    assert out.tolist() == [0, 1, 2, 3, 4]


def test_dlpack_of_read_only_memory(alone):
    data = np.arange(3)
    data.flags.writeable = False
    assert alone.all_reduce(Dlpack(data), np.zeros(3, int)).tolist() == [0, 1, 2]
    with pytest.raises(tutti.InvalidArgumentError, match="recv is read-only"):
        alone.all_reduce(np.zeros(3, int), Dlpack(data))


def test_dlpack_of_strided_memory(alone):
    with pytest.raises(tutti.InvalidArgumentError, match="send is not contiguous"):
        alone.all_reduce(Dlpack(np.arange(6)[::2]), np.zeros(3, int))


@pytest.mark.filterwarnings("ignore:Failed to initialize NumPy")
def test_torch(alone):
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        data = torch.arange(4).to(dtype)
        result = alone.all_reduce(data)
        assert result.dtype == dtype and torch.equal(result, data) and result is not data
    with pytest.raises(tutti.InvalidArgumentError, match="grad"):
        alone.all_reduce(torch.ones(3, requires_grad=True))
    with pytest.raises(tutti.InvalidArgumentError, match="conj"):
        alone.all_gather(torch.ones(3, dtype=torch.complex64).conj())
    with pytest.raises(tutti.InvalidArgumentError, match="not contiguous"):
        alone.all_gather(torch.ones(3, 2).t())


@pytest.mark.filterwarnings("ignore:Failed to initialize NumPy")
def test_pending_negations_of_torch(alone):
    torch = pytest.importorskip("torch")
    plain = torch.zeros(1)
    for pending in (torch._neg_view(torch.ones(1)), torch.tensor([1 + 2j]).conj().imag):
        for send, recv, name in ((pending, None, "send"), (plain, pending, "recv"), (pending, pending, "recv")):
            with pytest.raises(tutti.InvalidArgumentError, match=f"{name} is a tensor whose negation is pending"):
                alone.all_reduce(send, recv)
        assert alone.all_reduce(pending.resolve_neg()).tolist() == pending.tolist()


DOORS = {
    "DLPack": Dlpack,
    "NumPy's interface": lambda lent: Interface(**lent.__array_interface__),
    "CUDA's interface": lambda lent: CudaInterface(**lent.__array_interface__),
    "the buffer protocol": lambda lent: BufferFromPython(lent),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("property", ["is_neg", "is_conj"])
def test_pending_values_by_every_door(alone, door, property):
    if door == "the buffer protocol" and sys.version_info < (3, 12):
        pytest.skip("before Python 3.12, a class of Python lends no buffer")
    lent = DOORS[door](np.ones(2))
    setattr(lent, property, lambda: True)
    with pytest.raises(tutti.InvalidArgumentError, match=r"is pending: pass its resolve_(neg|conj)\(\)"):
        alone.all_reduce(lent)
    setattr(lent, property, lambda: False)
    if door != "CUDA's interface":  # which would need a GPU
        assert list(alone.all_reduce(lent)) == [1, 1]


@pytest.mark.parametrize("door", ["itself", *DOORS])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2],
                         ids=lambda dtype: np.dtype(dtype).name)
def test_masked_arrays_by_every_door(alone, door, dtype):
    masked = np.ma.masked_array(np.array([1, 2]).astype(dtype), [True, False])
    if door == "itself":
        lent = masked
    elif door == "the buffer protocol" and sys.version_info < (3, 12):
        pytest.skip("before Python 3.12, a class of Python lends no buffer")
    else:
        lent = DOORS[door](np.zeros(2, np.float32))
        lent._mask = masked._mask
    for arguments in ((lent,), (np.zeros(2, dtype), lent)):
        with pytest.raises(tutti.InvalidArgumentError, match="is a masked array"):
            alone.all_reduce(*arguments)


@pytest.mark.parametrize("kind", ["NumPy's interface", "CUDA's interface"])
def test_an_interface_with_a_mask(alone, kind):
    lent = DOORS[kind](np.zeros(2))
    interface = getattr(lent, "__array_interface__", None) or lent.__cuda_array_interface__
    interface["mask"] = np.ones(2, bool)
    with pytest.raises(tutti.InvalidArgumentError, match="send is a masked array"):
        alone.all_reduce(lent)


@pytest.mark.parametrize("bytes_, op, right", [((2, 128), "prod", True), ((2, 128), "min", True), ((2, 0), "prod", False),
                                               ((4, 64), "max", True), ((0, 0), "max", False), ((255, 255), "prod", True)])
def test_every_byte_of_a_bool_but_0_is_true(bytes_, op, right):
    assert ranks.run(2, reduced_bool, bytes_, op) == [right] * 2


def reduced_bool(comm, bytes_, op):
    mine = np.array([bytes_[comm.rank]] * 4, np.uint8).view(np.bool_)
    results = [comm.all_reduce(mine, op=op), comm.reduce_scatter(mine, op=op), comm.reduce_scatter_v(mine, [1, 3], op=op)]
    results += [comm.reduce(mine, op=op, root=root) for root in range(2)]
    answers = {bool(one) for result in results if result is not None for one in result}
    assert len(answers) == 1
    return answers.pop()


@pytest.mark.parametrize("lent", [bytes(8), bytearray(8), memoryview(bytes(8)), array("d", [0.0]),
                                  (ctypes.c_int * 2)(), np.zeros(2, np.int32), np.float64(0), np.zeros((0, 3))],
                         ids=lambda lent: type(lent).__name__)
def test_lends(alone, lent):
    alone.all_gather(lent)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2],
                         ids=lambda dtype: np.dtype(dtype).name)
def test_types_that_buffers_cannot_describe(alone, dtype):
    data = np.arange(4).astype(dtype)
    assert alone.all_reduce(data).tolist() == data.tolist()
    data.flags.writeable = False
    assert alone.all_reduce(data).tolist() == data.tolist()
    with pytest.raises(tutti.InvalidArgumentError, match="recv is read-only"):
        alone.all_reduce(data.copy(), data)
    with pytest.raises(tutti.InvalidArgumentError, match="not contiguous"):
        alone.all_reduce(data[::2])


def test_float8_of_another_kind_is_moved_but_not_added(alone):
    data = np.arange(4).astype(ml_dtypes.float8_e4m3b11fnuz)
    assert alone.all_gather(data).tolist() == data.tolist()
    with pytest.raises(tutti.InvalidArgumentError, match="has no operator sum"):
        alone.all_reduce(data)


@pytest.mark.parametrize("wrong", [None, 3, 2.5, "text", [1, 2], object()], ids=lambda wrong: type(wrong).__name__)
def test_objects_that_lend_nothing(alone, wrong):
    with pytest.raises(TypeError, match="lends no memory"):
        alone.all_reduce(wrong)


class Interface:
    def __init__(self, **fields):
        self.__array_interface__ = fields


class CudaInterface:
    def __init__(self, **fields):
        self.__cuda_array_interface__ = fields


class BufferFromPython:
    def __init__(self, lent):
        self.lent = lent

    def __buffer__(self, flags):
        return memoryview(self.lent)


@pytest.mark.parametrize("wrong", [
    Interface(), Interface(data=(), shape=(1,), typestr="<f4"), Interface(data=(0, False)), Interface(data=("a", 1), shape=(1,), typestr="<f4"),
    Interface(data=(1 << 70, False), shape=(0,), typestr="<f4"), Interface(data=(8, False), shape=(-1,), typestr="<f4"),
    Interface(data=(8, False), shape=(0,), strides=(), typestr="<f4"), Interface(data=(8, False), shape=3, typestr="<f4"),
    Interface(data=(8, False), shape=(0,), typestr=4), Interface(data=3, shape=(0,), typestr="<f4"),
], ids=lambda wrong: str(wrong.__array_interface__))
def test_array_interfaces_that_are_wrong(alone, wrong):
    with pytest.raises(tutti.InvalidArgumentError, match="not as NumPy defines it"):
        alone.all_gather(wrong)


def test_an_array_interface_alone(alone):
    data = np.arange(3.0)
    lent = Interface(**data.__array_interface__)
    assert alone.all_reduce(lent).tolist() == [0, 1, 2]
    with pytest.raises(tutti.InvalidArgumentError, match="of type <f1, which is unknown"):
        alone.all_reduce(Interface(data=(8, False), shape=(0,), typestr="<f1"))


@pytest.mark.parametrize("wrong, reason", [
    (np.arange(6)[::2], "not contiguous"),
    (np.asfortranarray(np.arange(6).reshape(2, 3)), "not contiguous"),
    (np.zeros(3, object), "no objects"),
    (np.zeros(3, [("a", "i4"), ("b", "f4")]), "no objects, structures"),
    (np.zeros(3, ">f4"), "byte order"),
    (np.array(["a"]), "text"),
    (np.array([1], "datetime64[s]"), "datetime64"),
    (np.ma.masked_array([1, 2], [True, False]), "masked"),
    (np.zeros(3, np.bool_), "bool has no operator sum"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_arrays_that_a_reduction_refuses(alone, wrong, reason):
    with pytest.raises(tutti.InvalidArgumentError, match=reason):
        alone.all_reduce(wrong)


def test_unaligned_memory(alone):
    unaligned = np.frombuffer(bytearray(17), np.float64, count=2, offset=1)
    with pytest.raises(tutti.InvalidArgumentError, match="align"):
        alone.all_reduce(unaligned)


@pytest.mark.parametrize("recv, reason", [
    (np.zeros(4), "recv has 4 elements, but 3 are needed"),
    (np.zeros(3, np.float32), "send has elements of float64 and recv of float32"),
    (bytes(24), "recv is read-only"),
    (np.zeros(6)[::2], "recv is not contiguous"),
])
def test_outputs_that_do_not_fit(alone, recv, reason):
    with pytest.raises(tutti.InvalidArgumentError, match=reason):
        alone.all_reduce(np.zeros(3), recv)


def test_overlap_that_is_not_in_place(alone):
    data = np.zeros(8)
    with pytest.raises(tutti.InvalidArgumentError, match="overlap"):
        alone.all_reduce(data[:4], data[2:6])


@pytest.mark.parametrize("op", ["sum", tutti.Op.SUM, 0])
def test_operators(alone, op):
    assert alone.all_reduce(np.ones(2), op=op).tolist() == [1, 1]


@pytest.mark.parametrize("op, kind", [("add", ValueError), (7, ValueError), (-1, ValueError), (1 << 80, ValueError),
                                      (None, TypeError), (2.0, TypeError)])
def test_operators_that_do_not_exist(alone, op, kind):
    with pytest.raises(kind, match="op is"):
        alone.all_reduce(np.ones(2), op=op)


@pytest.mark.parametrize("counts, kind, reason", [
    ([1, 2], ValueError, "counts has 2 numbers, but there are 1 ranks"),
    ([-1], ValueError, r"counts\[0\] is -1, below zero"),
    (["a"], TypeError, "integer"),
    ([1 << 80], OverflowError, "index-sized"),
    (5, TypeError, "a number for each rank"),
    ([4], ValueError, "send has 3 elements, but 4 are needed"),
])
def test_counts(alone, counts, kind, reason):
    with pytest.raises(kind, match=reason):
        alone.all_gather_v(np.zeros(3), counts)


def test_displacements_beyond_the_output(alone):
    with pytest.raises(tutti.InvalidArgumentError, match="its blocks end at element 8"):
        alone.all_gather_v(np.zeros(3), [3], np.zeros(7), [5])


def test_displacements_that_no_memory_has(alone):
    with pytest.raises((tutti.InvalidArgumentError, MemoryError, ValueError)):
        alone.all_gather_v(np.zeros(3), [3], np.zeros(7), [(1 << 63) - 2])


@pytest.mark.parametrize("root", [-1, 1, 1 << 20])
def test_roots_that_do_not_exist(alone, root):
    with pytest.raises(tutti.InvalidArgumentError, match="root"):
        alone.broadcast(np.zeros(3), root=root)


def test_a_buffer_in_use_cannot_be_resized(alone):
    with tutti.Stream() as stream:
        data = bytearray(8)
        work = alone.all_reduce(data, data, stream=stream)
        work.wait()
        data.extend(b"x")  # free again


def test_streams_of_another_kind(alone):
    with pytest.raises(TypeError, match="stream is of type str"):
        alone.barrier(stream="0")
    with pytest.raises(tutti.InvalidArgumentError, match="host memory"):
        alone.all_reduce(np.zeros(2), stream=4711)
