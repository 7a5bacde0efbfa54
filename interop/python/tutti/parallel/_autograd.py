"""The calls of _layers.py as functions of PyTorch's autograd."""

# mypy: disable-error-code="misc,no-untyped-call,no-any-return"
from __future__ import annotations

from typing import Any, Callable

import torch

from ._context import ContextParallelAttention
from ._layers import CrossEntropy, Embedding, Linear
from ._state import Group


class Region(torch.autograd.Function):

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Group, forward: Callable[..., torch.Tensor],
                backward: Callable[..., torch.Tensor]) -> torch.Tensor:
        ctx.group, ctx.backward_mapping = group, backward
        result = forward(group, x)
        return x.view_as(x) if result is x else result

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        return ctx.backward_mapping(ctx.group, grad), None, None, None


class LinearFunction(torch.autograd.Function):

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, layer: Linear) -> torch.Tensor:
        ctx.save_for_backward(x, weight, bias)
        ctx.layer = layer
        return layer.forward(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, None]:
        return *ctx.layer.backward(*ctx.saved_tensors, grad), None


class EmbeddingFunction(torch.autograd.Function):

    @staticmethod
    def forward(ctx: Any, ids: torch.Tensor, weight: torch.Tensor, embedding: Embedding) -> torch.Tensor:
        ctx.save_for_backward(ids, weight)
        ctx.embedding = embedding
        return embedding.forward(ids, weight)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[None, torch.Tensor, None]:
        return None, ctx.embedding.backward(*ctx.saved_tensors, grad), None


class CrossEntropyFunction(torch.autograd.Function):

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, targets: torch.Tensor, group: Group) -> torch.Tensor:
        ctx.loss = CrossEntropy(group, logits)
        return ctx.loss.forward(targets)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return ctx.loss.backward(grad), None, None


class AttentionFunction(torch.autograd.Function):

    @staticmethod
    def forward(ctx: Any, qkv: torch.Tensor, attention: ContextParallelAttention) -> torch.Tensor:
        out = attention.forward(qkv)
        ctx.save_for_backward(qkv, out)
        ctx.attention = attention
        return out

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return ctx.attention.backward(*ctx.saved_tensors, grad), None
