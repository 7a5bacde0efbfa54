"""Tensor and sequence parallelism: the calls, on NumPy's arrays and on PyTorch's tensors, where autograd knows them.

A group's ranks share a layer. `group` is the tensor-parallel one of tutti.parallel.initialize() unless it is given. A
sequence is the first dimension; tensor parallelism splits the last.
"""

from __future__ import annotations

from typing import Any, Callable

from .. import _parallel
from .._errors import InvalidArgumentError
from ._compute import compute_for, empty, is_torch, stream_of, zeros
from ._state import Group, current


def _tensor_group(group: Group | None) -> Group:
    return current().tensor if group is None else group


def _plain(array: Any) -> Any:
    """The array as the library takes it: contiguous, and outside of autograd."""
    if is_torch(array):
        return array.detach().contiguous()
    import numpy
    return numpy.ascontiguousarray(array)


def divided(what: str, value: int, by_what: str, divisor: int) -> int:
    """value / divisor. Raises InvalidArgumentError naming both unless it divides."""
    if value % divisor:
        raise InvalidArgumentError(f"{what} is {value}, which {by_what} ({divisor}) does not divide")
    return value // divisor


# The mappings: what each does to an array.
def _same(group: Group, x: Any) -> Any:
    return x


def _reduce(group: Group, x: Any) -> Any:
    x = _plain(x)
    result = empty(x, x.shape)
    group.all_reduce(x, result, "sum", stream_of(x))
    return result


def _mapping(call: Callable[..., None], shape_of: Callable[[tuple[int, ...], int], tuple[int, ...]]) -> Callable[..., Any]:
    def mapped(group: Group, x: Any) -> Any:
        x = _plain(x)
        result = empty(x, shape_of(tuple(x.shape), group.size))
        call(group, compute_for(x), x, result)
        return result
    return mapped


_gather_last = _mapping(_parallel.gather_last_dimension, lambda shape, size: (*shape[:-1], shape[-1] * size))
_split_last = _mapping(_parallel.split_last_dimension,
                       lambda shape, size: (*shape[:-1], divided("the last dimension", shape[-1], "the group's size", size)))
_gather_first = _mapping(_parallel.gather_first_dimension, lambda shape, size: (shape[0] * size, *shape[1:]))
_split_first = _mapping(_parallel.split_first_dimension,
                        lambda shape, size: (divided("the sequence's length", shape[0], "the group's size", size), *shape[1:]))
_reduce_scatter_first = _mapping(
    _parallel.reduce_scatter_first_dimension,
    lambda shape, size: (divided("the sequence's length", shape[0], "the group's size", size), *shape[1:]))


def _region(name: str, forward: Callable[..., Any], backward: Callable[..., Any], about: str) -> Callable[..., Any]:
    def region(x: Any, group: Group | None = None) -> Any:
        group = _tensor_group(group)
        if not is_torch(x):
            return forward(group, x)
        from ._autograd import Region
        return Region.apply(x, group, forward, backward)
    region.__name__ = region.__qualname__ = name
    region.__doc__ = about + " Raises InvalidArgumentError where a dimension does not divide, before anything is sent."
    return region


copy_to_tensor_model_parallel_region = _region(
    "copy_to_tensor_model_parallel_region", _same, _reduce,
    "x as it is, for layers that the ranks share; its gradient is summed over the group.")
reduce_from_tensor_model_parallel_region = _region(
    "reduce_from_tensor_model_parallel_region", _reduce, _same, "The sum of every rank's x.")
scatter_to_tensor_model_parallel_region = _region(
    "scatter_to_tensor_model_parallel_region", _split_last, _gather_last, "This rank's part of x's last dimension.")
gather_from_tensor_model_parallel_region = _region(
    "gather_from_tensor_model_parallel_region", _gather_last, _split_last,
    "Every rank's x side by side along the last dimension.")
scatter_to_sequence_parallel_region = _region(
    "scatter_to_sequence_parallel_region", _split_first, _gather_first, "This rank's part of the sequence x.")
gather_from_sequence_parallel_region = _region(
    "gather_from_sequence_parallel_region", _gather_first, _reduce_scatter_first,
    "The whole sequence, for layers that the ranks share, of every rank's part; its gradient is summed over the group.")
reduce_scatter_to_sequence_parallel_region = _region(
    "reduce_scatter_to_sequence_parallel_region", _reduce_scatter_first, _gather_first,
    "This rank's part of the sum of every rank's sequence x.")


class Linear:
    """What a split linear layer computes: `column` splits its outputs, otherwise its inputs."""

    def __init__(self, column: bool, group: Group, sequence_parallel: bool, whole: bool) -> None:
        """whole: every rank gets all outputs of a column-parallel layer, or has all inputs of a row-parallel one."""
        self.column, self.group = column, group
        self._size = group.size
        self._sequence_parallel, self._whole = sequence_parallel, whole
        self._options: Any = (_parallel.ColumnOptions(whole, sequence_parallel) if column else
                              _parallel.RowOptions(not whole, sequence_parallel))

    def _arguments(self, x: Any, weight: Any) -> tuple[Group, _parallel.Compute, int, int, Any]:
        outputs, inputs = weight.shape
        return (self.group, compute_for(x), inputs if self.column else inputs * self._size,
                outputs * self._size if self.column else outputs, self._options)

    def _output_shape(self, x: Any, weight: Any) -> tuple[int, ...]:
        first, columns = (x.shape[0] if len(x.shape) > 1 else 1), weight.shape[0]
        if self.column:
            first *= self._size if self._sequence_parallel else 1
            columns *= self._size if self._whole else 1
        elif self._sequence_parallel:
            first = divided("the sequence's length", first, "the group's size", self._size)
        return (first, *x.shape[1:-1], columns) if len(x.shape) > 1 else (columns,)

    def forward(self, x: Any, weight: Any, bias: Any) -> Any:
        x, weight, bias = _plain(x), _plain(weight), None if bias is None else _plain(bias)
        output = empty(x, self._output_shape(x, weight))
        call = _parallel.column_linear if self.column else _parallel.row_linear
        call(*self._arguments(x, weight), weight, bias, x, output)
        return output

    def backward(self, x: Any, weight: Any, bias: Any, grad_output: Any) -> tuple[Any, Any, Any]:
        x, weight, bias = _plain(x), _plain(weight), None if bias is None else _plain(bias)
        grad_weight = zeros(weight, weight.shape)
        grad_bias = None if bias is None else zeros(bias, bias.shape)
        grad_input = empty(x, x.shape)
        call = _parallel.column_linear_backward if self.column else _parallel.row_linear_backward
        call(*self._arguments(x, weight), weight, bias, grad_weight, grad_bias, x, _plain(grad_output), grad_input)
        return grad_input, grad_weight, grad_bias


def _linear(layer: Linear, x: Any, weight: Any, bias: Any) -> Any:
    if not is_torch(x):
        return layer.forward(x, weight, bias)
    from ._autograd import LinearFunction
    return LinearFunction.apply(x, weight, bias, layer)


def column_parallel_linear(x: Any, weight: Any, bias: Any = None, *, gather_output: bool = False,
                           sequence_parallel: bool = False, group: Group | None = None) -> Any:
    """x weight^T + bias, of which each rank computes some outputs: weight [outputs / size, inputs], bias [outputs / size].

    x [.., inputs], with sequence_parallel this rank's part of the sequence; the result is [.., outputs / size], or with
    gather_output [.., outputs].
    """
    return _linear(Linear(True, _tensor_group(group), sequence_parallel, gather_output), x, weight, bias)


def row_parallel_linear(x: Any, weight: Any, bias: Any = None, *, input_is_parallel: bool = True,
                        sequence_parallel: bool = False, group: Group | None = None) -> Any:
    """x weight^T + bias, to which each rank contributes some inputs: weight [outputs, inputs / size], bias [outputs].

    x [.., inputs / size], or [.., inputs] unless input_is_parallel; the result is [.., outputs], with sequence_parallel
    this rank's part of the sequence.
    """
    return _linear(Linear(False, _tensor_group(group), sequence_parallel, not input_is_parallel), x, weight, bias)


def column_parallel_linear_backward(x: Any, weight: Any, grad_output: Any, bias: Any = None, *,
                                    gather_output: bool = False, sequence_parallel: bool = False,
                                    group: Group | None = None) -> tuple[Any, Any, Any]:
    """The gradients of x, weight and bias (None without one), for programs without autograd."""
    return Linear(True, _tensor_group(group), sequence_parallel, gather_output).backward(x, weight, bias, grad_output)


def row_parallel_linear_backward(x: Any, weight: Any, grad_output: Any, bias: Any = None, *,
                                 input_is_parallel: bool = True, sequence_parallel: bool = False,
                                 group: Group | None = None) -> tuple[Any, Any, Any]:
    """The gradients of x, weight and bias (None without one), for programs without autograd."""
    layer = Linear(False, _tensor_group(group), sequence_parallel, not input_is_parallel)
    return layer.backward(x, weight, bias, grad_output)


def _int32(ids: Any) -> Any:
    if is_torch(ids):
        import torch
        return ids.detach().to(torch.int32).contiguous()
    import numpy
    return numpy.ascontiguousarray(ids, numpy.int32)


class Embedding:
    """What an embedding computes whose rows the ranks share."""

    def __init__(self, group: Group, sequence_parallel: bool) -> None:
        self.group = group
        self._sequence_parallel = sequence_parallel

    def _arguments(self, weight: Any) -> tuple[Group, _parallel.Compute, int, int, bool]:
        rows, columns = weight.shape
        return self.group, compute_for(weight), rows * self.group.size, columns, self._sequence_parallel

    def forward(self, ids: Any, weight: Any) -> Any:
        ids, weight = _int32(ids), _plain(weight)
        shape = [*ids.shape, weight.shape[1]]
        if self._sequence_parallel:
            shape[0] = divided("the sequence's length", shape[0], "the group's size", self.group.size)
        output = empty(weight, tuple(shape))
        _parallel.embedding(*self._arguments(weight), weight, ids, output)
        return output

    def backward(self, ids: Any, weight: Any, grad_output: Any) -> Any:
        grad_weight = zeros(weight, weight.shape)
        _parallel.embedding_backward(*self._arguments(weight), grad_weight, _int32(ids), _plain(grad_output))
        return grad_weight


def vocab_parallel_embedding(ids: Any, weight: Any, *, sequence_parallel: bool = False, group: Group | None = None) -> Any:
    """The rows of a table, of which each rank has weight [vocabulary / size, columns]: [*ids.shape, columns].

    With sequence_parallel the result is this rank's part of the first dimension.
    """
    embedding = Embedding(_tensor_group(group), sequence_parallel)
    if not is_torch(weight):
        return embedding.forward(ids, weight)
    from ._autograd import EmbeddingFunction
    return EmbeddingFunction.apply(ids, weight, embedding)


class CrossEntropy:
    """The loss over logits whose columns the ranks share, and its gradient."""

    def __init__(self, group: Group, logits: Any) -> None:
        self.logits = _plain(logits)
        self._loss = _parallel.CrossEntropy(group, compute_for(self.logits), self.logits.shape[-1] * group.size)

    def forward(self, targets: Any) -> Any:
        self._targets = _int32(targets)
        losses = empty(self.logits, tuple(self._targets.shape))
        self._loss.forward(self.logits, self._targets, losses)
        return losses

    def backward(self, grad_losses: Any) -> Any:
        grad_logits = empty(self.logits, self.logits.shape)
        self._loss.backward(self.logits, self._targets, _plain(grad_losses), grad_logits)
        return grad_logits


def vocab_parallel_cross_entropy(logits: Any, targets: Any, *, group: Group | None = None) -> Any:
    """The cross-entropy of each row, of which each rank has logits [.., vocabulary / size]: [..]. No rank gets a whole row."""
    group = _tensor_group(group)
    if not is_torch(logits):
        return CrossEntropy(group, logits).forward(targets)
    from ._autograd import CrossEntropyFunction
    return CrossEntropyFunction.apply(logits, targets, group)
