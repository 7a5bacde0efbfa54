"""A backward in two parts: the gradient of a module's input first, for which others wait, and its parameters' later."""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

from collections import Counter
from typing import Any

import torch

Leaves = dict[torch.Tensor, None]  # a set in order

# Newer versions of PyTorch begin a backward in the midst of a graph. With older ones the second part computes the
# gradients between the layers again.
_BEGINS_ANYWHERE = "GradientEdge" in str(torch.autograd.backward.__annotations__)


def _ways(y: torch.Tensor, x: torch.Tensor) -> dict[Any, Leaves]:
    """The graph's nodes between y and x, each with the parameters that it reaches otherwise than by another such node.

    None of them if x takes no part in y.
    """
    leads: dict[Any, bool] = {}  # whether a node leads to x
    reached: dict[Any, Leaves] = {}
    open_nodes = [] if y.grad_fn is None else [y.grad_fn]
    while open_nodes:
        node = open_nodes[-1]
        children = [child for child, _ in node.next_functions if child is not None]
        unknown = [child for child in children if child not in leads]
        if unknown and node not in leads:
            open_nodes += unknown
            continue
        open_nodes.pop()
        leaf = getattr(node, "variable", None)
        leads[node] = leaf is x or any(leads[child] for child in children)
        reached[node] = {} if leaf is None or leaf is x else {leaf: None}
        for child in children:
            if not leads[child]:
                reached[node].update(reached[child])
    return {node: leaves for node, leaves in reached.items() if leads[node]}


class SplitBackward:
    """The backward of y by x. REQUIRES: y needs gradients; x is a leaf that does."""

    def __init__(self, y: torch.Tensor, x: torch.Tensor, grad_y: torch.Tensor) -> None:
        self._y, self._x, self._grad_y = y, x, grad_y
        self._ways = _ways(y, x)
        self._grads: dict[Any, tuple[torch.Tensor | None, ...]] = {}  # that came to a node

    def input(self) -> torch.Tensor | None:
        """The gradient of x; None if it takes no part."""
        def kept(node: Any) -> Any:
            return node.register_prehook(lambda grads: self._grads.update({node: grads}))

        hooks = [kept(node) for node, leaves in self._ways.items() if leaves and _BEGINS_ANYWHERE]
        grad, = torch.autograd.grad(self._y, self._x, self._grad_y, retain_graph=True, allow_unused=True)
        for hook in hooks:
            hook.remove()
        return grad

    def weight(self) -> None:
        """Adds the other leaves' gradients to their .grad."""
        if not self._ways:
            if self._y.grad_fn is not None:
                torch.autograd.backward(self._y, self._grad_y)
            return
        # A parameter that one node alone reaches needs this node only. One that several nodes reach gets the sum of all
        # ways from y.
        ways = Counter(leaf for leaves in self._ways.values() for leaf in leaves)
        alone = {leaf for leaf, count in ways.items() if count == 1 and _BEGINS_ANYWHERE}
        several = [leaf for leaf in ways if leaf not in alone]
        if several:
            torch.autograd.backward(self._y, self._grad_y, retain_graph=True, inputs=several)
        for node, grads in self._grads.items():
            leaves = [leaf for leaf in self._ways[node] if leaf in alone]
            edge_of = getattr(torch.autograd.graph, "GradientEdge")  # which older versions lack
            edges = [(edge_of(node, place), grad) for place, grad in enumerate(grads)
                     if grad is not None]
            if leaves and edges:
                torch.autograd.backward([edge for edge, _ in edges], [grad for _, grad in edges], inputs=leaves)
