"""Expert parallelism: tokens travel to the ranks that have their experts, and the results travel back and are added up.

    dispatcher = MoEAlltoAllTokenDispatcher(num_experts=8, topk=2, hidden_size=512)
    routing = route(tokens @ router.T, topk=2)
    handle = dispatcher.layout(routing)
    rows = dispatcher.dispatch(tokens, handle)                          # one expert's after the other's
    output = dispatcher.combine(experts(rows), routing.weights, handle)

Calls take NumPy's arrays and PyTorch's tensors, which autograd differentiates.
"""

from __future__ import annotations

import array
from dataclasses import dataclass
from typing import Any, TypeVar

from .. import _parallel
from ._compute import compute_for, empty, is_torch
from ._layers import _int32, _plain
from ._state import Group, current

DispatchHandle = _parallel.DispatchHandle


@dataclass
class Routing:
    """The experts of a rank's tokens: what route returns, or a program's own router has chosen."""

    weights: Any  # [tokens, topk], float32
    indices: Any  # [tokens, topk], int32, on the host; -1: no expert
    num_experts: int
    probabilities: Any = None  # [tokens, num_experts], without a gradient
    load: Any = None  # LoadStatistics
    aux_loss: Any = 0.0


class Router:
    """One call of route: its forward and backward."""

    def __init__(self, topk: int, renormalize: bool, aux_loss_coeff: float, group: Group | None) -> None:
        self._group, self._topk, self._renormalize, self._aux_loss_coeff = group, topk, renormalize, aux_loss_coeff

    def forward(self, logits: Any) -> Any:
        self.routed = _parallel.Routed(compute_for(logits), self._group, self._topk, self._renormalize,
                                       self._aux_loss_coeff, logits)
        return self.routed

    def backward(self, logits: Any, grad_weights: Any, grad_aux_loss: float) -> Any:
        grad_logits = empty(logits, logits.shape)
        self.routed.backward(grad_aux_loss, _plain(grad_weights), grad_logits)
        return grad_logits


def route(logits: Any, topk: int, *, renormalize: bool = True, aux_loss_coeff: float = 0.0,
          group: Group | None = None) -> Routing:
    """The topk most probable experts of each token, by the softmax of logits [tokens, experts]; equal ones by number.

    weights are the probabilities, which sum to 1 for each token if they are renormalised. They have a gradient, and so
    has aux_loss, aux_loss_coeff times the load-balancing loss (Switch Transformers use 0.01). load counts the tokens of
    each expert. group: the ranks that share the batch; all of them call this, and load counts all their tokens.

    Raises InvalidArgumentError naming both values unless topk is from 1 to the number of experts.
    """
    router = Router(topk, renormalize, aux_loss_coeff, group)
    if is_torch(logits):
        from ._expert_autograd import RouteFunction
        weights, aux_loss, indices, probabilities = RouteFunction.apply(logits.float(), router)
        return Routing(weights, indices, logits.shape[-1], probabilities, router.routed.load, aux_loss)
    import numpy
    routed = router.forward(numpy.ascontiguousarray(logits, numpy.float32))
    return Routing(routed.weights, routed.indices, logits.shape[-1], routed.probabilities, routed.load, routed.aux_loss)


class Exchange:
    """A dispatch or a combine between its begin and its end."""

    def __init__(self, dispatcher: _parallel.Dispatcher, handle: DispatchHandle, overlapped: bool,
                 hidden_size: int) -> None:
        self._dispatcher, self._handle, self._overlapped = dispatcher, handle, overlapped
        self._hidden_size = hidden_size
        self.started: Any = None  # stands for it in autograd

    def _tokens(self, like: Any) -> Any:
        return empty(like, (self._handle.tokens, self._hidden_size))


class Dispatch(Exchange):

    def begin(self, tokens: Any) -> None:
        self._exchange = self._dispatcher.dispatch_begin(_plain(tokens), self._handle, self._overlapped)

    def end(self) -> tuple[Any, tuple[Any, ...]]:
        """The rows for this rank's experts, and what backward_begin needs."""
        return self._dispatcher.dispatch_end(self._exchange, self._handle), ()

    def backward_begin(self, grad_rows: Any) -> None:
        self._exchange = self._dispatcher.dispatch_backward_begin(_plain(grad_rows), self._handle, self._overlapped)

    def backward_end(self, like: Any) -> Any:
        grad_tokens = self._tokens(like)
        self._dispatcher.dispatch_backward_end(self._exchange, self._handle, grad_tokens)
        return grad_tokens


class Combine(Exchange):

    weights: Any

    def begin(self, expert_rows: Any) -> None:
        self._like = empty(expert_rows, (0,))
        self._exchange = self._dispatcher.combine_begin(_plain(expert_rows), _plain(self.weights), self._handle,
                                                        self._overlapped)

    def end(self) -> tuple[Any, tuple[Any, ...]]:
        output = self._tokens(self._like)
        saved = self._dispatcher.combine_end(self._exchange, _plain(self.weights), self._handle, output)
        return output, saved

    def backward_begin(self, grad_output: Any, returned: Any, weights: Any) -> Any:
        grad_weights = empty(weights, weights.shape)
        self._exchange = self._dispatcher.combine_backward_begin(_plain(grad_output), returned, weights, self._handle,
                                                                 grad_weights, self._overlapped)
        return grad_weights

    def backward_end(self, like: Any) -> Any:
        return self._dispatcher.dispatch_end(self._exchange, self._handle)


Begun = TypeVar("Begun", Dispatch, Combine)


class MoEAlltoAllTokenDispatcher:
    """Sends tokens to their experts and adds up the results, for the ranks of a group, over which experts are divided.

    Every rank has consecutive experts; the first num_experts % group.size ranks have one more than the others. All
    ranks make it together, and make each of its calls together. Raises InvalidArgumentError or InvalidUsageError on
    every rank, naming the quantity and both values, where a size is not possible or ranks differ.

    capacity_factor: 0, or an expert takes the first ceil(capacity_factor * tokens * topk / num_experts) choices of each
    rank's tokens, and the others contribute nothing. parts: into as many layouts() divides the tokens. group: None:
    current().expert.
    """

    def __init__(self, num_experts: int, topk: int, hidden_size: int, *, capacity_factor: float = 0.0, parts: int = 1,
                 group: Group | None = None) -> None:
        self.group = current().expert if group is None else group
        self.num_experts, self.topk, self.hidden_size = num_experts, topk, hidden_size
        self._settings = num_experts, topk, hidden_size, capacity_factor, parts
        self._made: dict[Any, _parallel.Dispatcher] = {}  # by the tokens' type and place
        self._for(array.array("f"))  # ranks compare their arguments now

    def experts_of(self, rank: int) -> range:
        """The experts that a rank of the group has."""
        return range(*_parallel.part_of(self.num_experts, rank, self.group.size))

    @property
    def local_experts(self) -> range:
        """The experts that this rank has."""
        return self.experts_of(self.group.rank)

    def _for(self, tokens: Any) -> _parallel.Dispatcher:
        key = (tokens.dtype, tokens.device) if is_torch(tokens) else getattr(tokens, "dtype", None)
        if key not in self._made:
            like = _plain(tokens[:0]) if is_torch(tokens) else tokens
            self._made[key] = _parallel.Dispatcher(self.group, compute_for(tokens), like, *self._settings)
        return self._made[key]

    def layouts(self, routing: Routing) -> list[DispatchHandle]:
        """Where the tokens go, in `parts` handles for consecutive parts of them: all drop together what one would.

        The first tokens % parts have one token more. So one part's exchange can overlap another part's experts.
        """
        return self._layouts(routing, False)

    def _layouts(self, routing: Routing, whole: bool) -> list[DispatchHandle]:
        indices = _int32(routing.indices)
        if is_torch(indices):
            indices = indices.cpu()
        return self._for(routing.weights).layouts(indices, routing.num_experts, whole)

    def layout(self, routing: Routing) -> DispatchHandle:
        """Where the tokens go. The ranks exchange the number of rows for each expert, and no more for what follows."""
        return self._layouts(routing, True)[0]

    def dispatch_begin(self, tokens: Any, handle: DispatchHandle, *, overlapped: bool = True) -> Dispatch:
        """dispatch in two parts, between which this rank may compute, but begin no other exchange."""
        exchange = Dispatch(self._for(tokens), handle, overlapped, self.hidden_size)
        return self._begun(exchange, tokens)

    def dispatch_end(self, exchange: Dispatch) -> Any:
        """What dispatch returns, of what dispatch_begin began."""
        return self._ended(exchange, None)

    def dispatch(self, tokens: Any, handle: DispatchHandle) -> Any:
        """The rows [sum(handle.tokens_per_expert), hidden_size] for this rank's experts, of all ranks' tokens.

        tokens [handle.tokens, hidden_size]. Rows are sorted by local expert, source rank, token.
        """
        return self.dispatch_end(self.dispatch_begin(tokens, handle, overlapped=False))

    def combine_begin(self, expert_rows: Any, weights: Any, handle: DispatchHandle, *,
                      overlapped: bool = True) -> Combine:
        """combine in two parts, as dispatch_begin."""
        exchange = Combine(self._for(expert_rows), handle, overlapped, self.hidden_size)
        exchange.weights = weights
        return self._begun(exchange, expert_rows)

    def combine_end(self, exchange: Combine) -> Any:
        """What combine returns, of what combine_begin began."""
        return self._ended(exchange, exchange.weights)

    def combine(self, expert_rows: Any, weights: Any, handle: DispatchHandle) -> Any:
        """The sum of each token's expert rows times its weights [handle.tokens, topk]: [handle.tokens, hidden_size]."""
        return self.combine_end(self.combine_begin(expert_rows, weights, handle, overlapped=False))

    @staticmethod
    def _begun(exchange: Begun, rows: Any) -> Begun:
        if is_torch(rows):
            from ._expert_autograd import Begin
            exchange.started = Begin.apply(rows, exchange)
        else:
            exchange.begin(rows)
        return exchange

    @staticmethod
    def _ended(exchange: Dispatch | Combine, weights: Any) -> Any:
        if exchange.started is None:
            return exchange.end()[0]
        from ._expert_autograd import End
        started, exchange.started = exchange.started, None
        return End.apply(started, weights, exchange)
