"""The computation between collectives, by the kind of arrays: NumPy's, or PyTorch's on the host or a GPU."""

from __future__ import annotations

import sys
from typing import Any

from .. import _parallel

_computes: dict[Any, _parallel.Compute] = {}


def is_torch(array: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def _numpy_matmul(transpose_a: bool, a: Any, transpose_b: bool, b: Any, c: Any, accumulate: bool) -> None:
    import numpy
    a = a.T if transpose_a else a
    b = b.T if transpose_b else b
    if accumulate:
        c += a @ b
    else:
        numpy.matmul(a, b, out=c)


def compute_for(array: Any) -> _parallel.Compute:
    """One for each place where tensors are; it lives as long as the process."""
    place = array.device if is_torch(array) else None
    if place not in _computes:
        if place is None:
            _computes[place] = _parallel.numpy_compute(_numpy_matmul)
        else:
            from ._torch_compute import TorchCompute
            on_device = place.type == "cuda"
            _computes[place] = _parallel.torch_compute(TorchCompute(place), place.index if on_device else -1)
    return _computes[place]


def stream_of(array: Any) -> int:
    """The CUDA stream on which PyTorch computes with the tensor; 0: the host, at once."""
    if not is_torch(array) or not array.is_cuda:
        return 0
    import torch
    return int(torch.cuda.current_stream(array.device).cuda_stream)


def empty(like: Any, shape: tuple[int, ...]) -> Any:
    """An array of the shape, in the kind, type and place of `like`; not initialised."""
    if is_torch(like):
        return like.new_empty(shape)
    import numpy
    return numpy.empty(shape, like.dtype)


def zeros(like: Any, shape: tuple[int, ...]) -> Any:
    if is_torch(like):
        return like.new_zeros(shape)
    import numpy
    return numpy.zeros(shape, like.dtype)
