"""The attention between a block of queries and a block of keys and values, on PyTorch's tensors, wherever they are.

The methods are those of tutti::parallel::AttentionCompute (tutti/parallel/attention_compute.h), which describes them.
Tensors are views over memory of the layer or of its caller: [positions, lanes, heads, width], where the queries of a
lane see the same head of keys and values. What belongs to queries may come as [positions, lanes * heads, 1, width].
"""

# mypy: disable-error-code="misc,no-untyped-call,no-any-return"
from __future__ import annotations

from typing import Iterator, Tuple

import torch

# Queries, keys, values, whether the mask is causal, its window, and the first query's position less the first key's.
Inputs = Tuple[torch.Tensor, torch.Tensor, torch.Tensor, bool, int, int]

# Scores, in float32, that exist at a time: 64 MiB, which a long block would exceed many times. Its queries are computed
# some at a time, and keys that none of these sees are left out.
_SCORES = 1 << 24


def _by_lane(rows: torch.Tensor, lanes: int) -> torch.Tensor:
    """[lanes, heads * positions, width] in float32, head by head."""
    positions, width = rows.shape[0], rows.shape[-1]
    rows = rows.reshape(positions, lanes, -1, width).permute(1, 2, 0, 3)
    return rows.reshape(lanes, -1, width).float()


def _add(rows: torch.Tensor, by_lane: torch.Tensor) -> None:
    """Adds to rows what _by_lane made of others like them."""
    positions, groups, heads, width = rows.shape
    lanes = by_lane.shape[0]
    rows.add_(by_lane.view(lanes, -1, positions, width).permute(2, 0, 1, 3).reshape(positions, groups, heads, width))


def _slices(inputs: Inputs) -> Iterator[tuple[slice, slice, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Some queries at a time: which, the keys that they see, both and the values by lane, and the scaled scores."""
    q, k, v, causal, window, lead = inputs
    lanes, heads = k.shape[1], q.shape[1] * q.shape[2] // k.shape[1]
    step = max(1, _SCORES // max(1, k.shape[1] * heads * k.shape[0]))
    for first in range(0, q.shape[0], step):
        queries = slice(first, min(first + step, q.shape[0]))
        begin = max(0, first + lead + 1 - window) if window else 0
        keys = slice(begin, min(queries.stop + lead, k.shape[0]) if causal else k.shape[0])
        query, key, value = _by_lane(q[queries], lanes), _by_lane(k[keys], lanes), _by_lane(v[keys], lanes)
        scores = torch.bmm(query, key.transpose(1, 2)).mul_(q.shape[-1] ** -0.5)
        if causal:
            position = torch.arange(queries.start + lead, queries.stop + lead, device=q.device)[:, None]
            other = torch.arange(keys.start, keys.stop, device=q.device)
            hidden = other > position
            if window:
                hidden |= other <= position - window
            scores.view(lanes, heads, *hidden.shape).masked_fill_(hidden, -torch.inf)
        yield queries, keys, query, key, value, scores


class TorchAttention:

    def attend(self, inputs: Inputs, out: torch.Tensor, maxima: torch.Tensor, sums: torch.Tensor) -> None:
        lanes = inputs[1].shape[1]
        for queries, _, _, _, value, scores in _slices(inputs):
            old_sum, old_maximum = _by_lane(sums[queries], lanes), _by_lane(maxima[queries], lanes)
            maximum = torch.maximum(old_maximum.masked_fill(old_sum == 0, -torch.inf), scores.amax(2, keepdim=True))
            # The sums so far are relative to their maximum. Nothing has been seen: they are zeros, and stay so.
            factor = torch.where(old_sum.eq(0), torch.zeros_like(old_sum), torch.exp(old_maximum - maximum))
            weights = scores.sub_(maximum).exp_()
            self._set(sums[queries], old_sum * factor + weights.sum(2, keepdim=True))
            self._set(maxima[queries], maximum)
            self._set(out[queries], torch.baddbmm(_by_lane(out[queries], lanes) * factor, weights, value))

    @staticmethod
    def _set(rows: torch.Tensor, by_lane: torch.Tensor) -> None:
        rows.zero_()
        _add(rows, by_lane)

    def finish(self, weighted: torch.Tensor, maxima: torch.Tensor, sums: torch.Tensor, out: torch.Tensor) -> None:
        out.copy_(weighted / sums)
        maxima.add_(sums.log())

    def attend_delta(self, out: torch.Tensor, grad_out: torch.Tensor, delta: torch.Tensor) -> None:
        delta.copy_((out.float() * grad_out.float()).sum(-1, keepdim=True))

    def attend_backward(self, inputs: Inputs, grad_out: torch.Tensor, lse: torch.Tensor, delta: torch.Tensor,
                        grad_q: torch.Tensor, grad_k: torch.Tensor, grad_v: torch.Tensor) -> None:
        lanes = inputs[1].shape[1]
        scale = inputs[0].shape[-1] ** -0.5
        for queries, keys, query, key, value, scores in _slices(inputs):
            weights = scores.sub_(_by_lane(lse[queries], lanes)).exp_()
            grad = _by_lane(grad_out[queries], lanes)
            _add(grad_v[keys], torch.bmm(weights.transpose(1, 2), grad))
            grads = torch.bmm(grad, value.transpose(1, 2)).sub_(_by_lane(delta[queries], lanes))
            grads.mul_(weights).mul_(scale)
            _add(grad_q[queries], torch.bmm(grads, key))
            _add(grad_k[keys], torch.bmm(grads.transpose(1, 2), query))
