"""The computation that the parallel layer needs between its collectives, on PyTorch's tensors, wherever they are.

The methods are those of tutti::parallel::Compute (tutti/parallel/compute.h), which describes them. They get tensors over
memory of the layer or of its caller, and write where it says.
"""

# mypy: disable-error-code="misc,no-untyped-call,no-any-return"
from __future__ import annotations

import torch


def _matrix(tensor: torch.Tensor) -> torch.Tensor:
    """The last dimension is the columns, all others together are the rows."""
    columns = tensor.shape[-1] if tensor.dim() else 1
    return tensor.view(tensor.numel() // columns if columns else 0, columns)


class TorchCompute:

    def __init__(self, device: torch.device) -> None:
        self._device = device
        if device.type == "cuda":
            self._communication = torch.cuda.Stream(device)

    def allocate(self, count: int) -> torch.Tensor:
        return torch.empty(max(count, 1), dtype=torch.uint8, device=self._device)

    def stream(self) -> int:
        return torch.cuda.current_stream(self._device).cuda_stream

    def communication_stream(self) -> int:
        return self._communication.cuda_stream

    def fork_communication(self) -> None:
        self._communication.wait_stream(torch.cuda.current_stream(self._device))

    def join_communication(self) -> None:
        torch.cuda.current_stream(self._device).wait_stream(self._communication)

    def zero(self, tensor: torch.Tensor) -> None:
        tensor.zero_()

    def scale(self, tensor: torch.Tensor, factor: float) -> None:
        tensor.mul_(factor)

    def copy(self, source: torch.Tensor, to: torch.Tensor, accumulate: bool) -> None:
        if accumulate:
            to.view(-1).add_(source.view(-1))
        else:
            to.view(-1).copy_(source.view(-1))

    def matmul(self, transpose_a: bool, a: torch.Tensor, transpose_b: bool, b: torch.Tensor, c: torch.Tensor,
               accumulate: bool) -> None:
        a, b, c = _matrix(a), _matrix(b), _matrix(c)
        a = a.t() if transpose_a else a
        b = b.t() if transpose_b else b
        if accumulate:
            c.addmm_(a, b)
        else:
            torch.mm(a, b, out=c)

    def add_bias(self, y: torch.Tensor, bias: torch.Tensor) -> None:
        y.add_(bias)

    def add_rows(self, y: torch.Tensor, sums: torch.Tensor) -> None:
        sums.add_(_matrix(y).sum(0))

    def copy_columns(self, source: torch.Tensor, from_first: int, to: torch.Tensor, to_first: int, columns: int) -> None:
        _matrix(to)[:, to_first:to_first + columns].copy_(_matrix(source)[:, from_first:from_first + columns])

    def embed(self, ids: torch.Tensor, table: torch.Tensor, first: int, output: torch.Tensor) -> None:
        rows = ids.view(-1).long() - first
        inside = (rows >= 0) & (rows < table.shape[0])
        output = _matrix(output)
        torch.index_select(table, 0, rows.clamp(0, table.shape[0] - 1), out=output)
        output.masked_fill_(~inside[:, None], 0)

    def embed_backward(self, ids: torch.Tensor, grad_output: torch.Tensor, first: int, grad_table: torch.Tensor) -> None:
        rows = ids.view(-1).long() - first
        inside = (rows >= 0) & (rows < grad_table.shape[0])
        grad_table.index_add_(0, rows[inside], _matrix(grad_output)[inside])

    def row_maxima(self, logits: torch.Tensor, maxima: torch.Tensor) -> None:
        maxima.view(-1).copy_(torch.amax(_matrix(logits), 1))

    def exponential_sums(self, logits: torch.Tensor, maxima: torch.Tensor, targets: torch.Tensor, first: int,
                         sums: torch.Tensor, target_logits: torch.Tensor) -> None:
        shifted = _matrix(logits).float() - maxima.view(-1, 1)
        columns = targets.view(-1).long() - first
        inside = (columns >= 0) & (columns < shifted.shape[1])
        chosen = shifted.gather(1, columns.clamp(0, shifted.shape[1] - 1)[:, None]).view(-1)
        target_logits.view(-1).copy_(chosen.masked_fill_(~inside, 0))
        torch.sum(shifted.exp_(), 1, out=sums.view(-1))

    def cross_entropy(self, sums: torch.Tensor, target_logits: torch.Tensor, losses: torch.Tensor) -> None:
        losses.view(-1).copy_(sums.view(-1).log() - target_logits.view(-1))

    def cross_entropy_backward(self, logits: torch.Tensor, maxima: torch.Tensor, sums: torch.Tensor,
                               targets: torch.Tensor, first: int, grad_losses: torch.Tensor,
                               grad_logits: torch.Tensor) -> None:
        grads = grad_losses.view(-1, 1).float()
        to = (_matrix(logits).float() - maxima.view(-1, 1)).exp_().div_(sums.view(-1, 1)).mul_(grads)
        columns = targets.view(-1).long() - first
        inside = ((columns >= 0) & (columns < to.shape[1])).nonzero().view(-1)
        to[inside, columns[inside]] -= grads.view(-1)[inside]
        _matrix(grad_logits).copy_(to)

    def sum_rows(self, source: torch.Tensor, rows: torch.Tensor, weights: torch.Tensor | None, to: torch.Tensor) -> None:
        source, rows, to = _matrix(source), _matrix(rows).long(), _matrix(to)
        to.zero_()
        for choice in range(rows.shape[1] if source.shape[0] else 0):
            chosen = rows[:, choice]
            values = source[chosen.clamp(min=0)].masked_fill_((chosen < 0)[:, None], 0)
            to.add_(values if weights is None else values.mul_(_matrix(weights)[:, choice, None]))

    def dot_rows(self, x: torch.Tensor, source: torch.Tensor, rows: torch.Tensor, dots: torch.Tensor) -> None:
        x, source, rows, dots = _matrix(x), _matrix(source), _matrix(rows).long(), _matrix(dots)
        dots.zero_()
        for choice in range(rows.shape[1] if source.shape[0] else 0):
            chosen = rows[:, choice]
            dots[:, choice] = (x * source[chosen.clamp(min=0)]).sum(1).masked_fill_(chosen < 0, 0)

    def topk_softmax(self, logits: torch.Tensor, renormalize: bool, probabilities: torch.Tensor, indices: torch.Tensor,
                     weights: torch.Tensor) -> None:
        logits = _matrix(logits)
        torch.softmax(logits, 1, out=_matrix(probabilities))
        # Stable: equal ones go by index. A NaN is less than any number.
        ordered = torch.sort(logits.masked_fill(logits.isnan(), -torch.inf), dim=1, descending=True, stable=True)
        chosen = ordered.indices[:, :indices.shape[-1]]
        _matrix(indices).copy_(chosen)
        torch.gather(_matrix(probabilities), 1, chosen, out=_matrix(weights))
        if renormalize:
            weights.div_(weights.sum(-1, keepdim=True))

    def topk_softmax_backward(self, probabilities: torch.Tensor, indices: torch.Tensor, renormalize: bool,
                              grad_weights: torch.Tensor, grad_columns: torch.Tensor, grad_logits: torch.Tensor) -> None:
        chosen, grads, to = _matrix(indices).long(), _matrix(grad_weights), _matrix(grad_logits)
        if renormalize:
            # weight j = p(j) / total, so its gradient reaches p(i) as (one at i = j, less weight j) / total.
            kept = probabilities.gather(1, chosen)
            total = kept.sum(1, keepdim=True)
            grads = (grads - (grads * kept).sum(1, keepdim=True) / total) / total
        to.copy_(grad_columns.view(1, -1).expand_as(to))
        to.scatter_add_(1, chosen, grads)
        to.sub_((to * probabilities).sum(1, keepdim=True)).mul_(probabilities)
