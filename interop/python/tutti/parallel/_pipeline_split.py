"""A backward in two parts: the gradient of a module's input first, for which others wait, and its parameters' later."""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

from typing import Any

import torch

# Newer versions of PyTorch begin a backward in the midst of a graph. With older ones the second part computes the
# gradients between the layers again.
_BEGINS_ANYWHERE = "GradientEdge" in str(torch.autograd.backward.__annotations__)


def _ways(y: torch.Tensor, x: torch.Tensor) -> tuple[dict[Any, list[torch.Tensor]], set[torch.Tensor]]:
    """The graph's nodes between y and x, each with the parameters that it reaches otherwise than by another such node.

    None of them if x takes no part in y. And those parameters that such a node reaches both ways.
    """
    leads: dict[Any, bool] = {}  # whether a node leads to x
    leaves: dict[torch.Tensor, int] = {}  # the parameters' bits in sets of them
    reached: dict[Any, int] = {}  # otherwise than by a node that leads to x
    below: dict[Any, int] = {}  # by such a node
    twice = 0
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
        reached[node] = 0 if leaf is None or leaf is x else leaves.setdefault(leaf, 1 << len(leaves))
        below[node] = 0
        for child in children:
            if leads[child]:
                below[node] |= below[child] | reached[child]
            else:
                reached[node] |= reached[child]
        twice |= below[node] & reached[node]

    def of(bits: int) -> list[torch.Tensor]:
        return [leaf for leaf, bit in leaves.items() if bit & bits] if bits else []

    return {node: of(reached[node]) for node in reached if leads[node]}, set(of(twice))


class SplitBackward:
    """The backward of y by x. REQUIRES: y needs gradients; x is a leaf that does."""

    def __init__(self, y: torch.Tensor, x: torch.Tensor, grad_y: torch.Tensor) -> None:
        self._y, self._x, self._grad_y = y, x, grad_y
        self._ways, self._twice = _ways(y, x)
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
        # A parameter needs those nodes only that reach it. It gets the sum of all ways from y if one of them leads to
        # another, which would count that one's part twice.
        nodes_of: dict[torch.Tensor, list[Any]] = {}
        for node in self._grads or self._ways:
            for leaf in self._ways[node]:
                nodes_of.setdefault(leaf, []).append(node)
        whole = {leaf: None for leaf in nodes_of if leaf in self._twice or not _BEGINS_ANYWHERE}
        if whole:
            torch.autograd.backward(self._y, self._grad_y, retain_graph=True, inputs=list(whole))
        together: dict[tuple[Any, ...], list[torch.Tensor]] = {}
        for leaf, nodes in nodes_of.items():
            if leaf not in whole:
                together.setdefault(tuple(nodes), []).append(leaf)
        for group, leaves in together.items():
            edge_of = getattr(torch.autograd.graph, "GradientEdge")  # which older versions lack
            edges = [(edge_of(node, place), grad) for node in group for place, grad in enumerate(self._grads[node])
                     if grad is not None]
            if edges:
                # A node may be in several of them.
                torch.autograd.backward([edge for edge, _ in edges], [grad for _, grad in edges], retain_graph=True,
                                        inputs=leaves)
