"""The calls of _experts.py as functions of PyTorch's autograd.

An exchange is two functions, its begin and its end. Autograd runs them backwards: the end's backward begins the
gradients' exchange, and the begin's backward ends it. So what overlaps in the forward pass overlaps in the backward
pass.
"""

# mypy: disable-error-code="misc,no-untyped-call,no-any-return"
from __future__ import annotations

from typing import Any

import torch

from ._experts import Combine, Dispatch, Router
from ._layers import _plain


class RouteFunction(torch.autograd.Function):

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, router: Router) -> tuple[Any, ...]:
        ctx.router = router
        routed = router.forward(_plain(logits))
        indices, probabilities = routed.indices, routed.probabilities  # arrays, made anew each time
        ctx.mark_non_differentiable(indices, probabilities)
        ctx.save_for_backward(logits)
        return routed.weights, logits.new_tensor(routed.aux_loss), indices, probabilities

    @staticmethod
    def backward(ctx: Any, grad_weights: torch.Tensor, grad_aux_loss: torch.Tensor,
                 *_: Any) -> tuple[torch.Tensor, None]:
        return ctx.router.backward(*ctx.saved_tensors, grad_weights, grad_aux_loss.item()), None


class WithAuxLoss(torch.autograd.Function):
    """The output as it is. Its backward begins the aux loss's, too, with a gradient of `scale`: no one adds that loss."""

    @staticmethod
    def forward(ctx: Any, output: torch.Tensor, aux_loss: torch.Tensor, scale: float) -> torch.Tensor:
        ctx.save_for_backward(aux_loss)
        ctx.scale = scale
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        aux_loss, = ctx.saved_tensors
        return grad, torch.full_like(aux_loss, ctx.scale), None


class Begin(torch.autograd.Function):

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, exchange: Dispatch | Combine) -> torch.Tensor:
        ctx.exchange = exchange
        exchange.begin(rows)
        return rows.new_empty(0)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return ctx.exchange.backward_end(grad), None


class End(torch.autograd.Function):

    @staticmethod
    def forward(ctx: Any, started: torch.Tensor, weights: torch.Tensor | None,
                exchange: Dispatch | Combine) -> torch.Tensor:
        ctx.exchange = exchange
        result, saved = exchange.end()
        ctx.save_for_backward(*saved)
        return result

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None, None]:
        grad_weights = ctx.exchange.backward_begin(grad, *ctx.saved_tensors)
        started = grad.new_empty(0)
        if not ctx.needs_input_grad[0]:
            ctx.exchange.backward_end(started)  # the other ranks exchange it, too
        return started, grad_weights, None
