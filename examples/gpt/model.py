"""A small GPT over bytes, split over ranks: each rank has some layers, and of these its part.

train.py and generate.py use it. tutti.parallel splits it; everything else is plain PyTorch.
"""

import argparse
import os

import torch
from torch import nn

import tutti.parallel as tp

VOCABULARY = 256  # bytes


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that both programs have: vLLM's for the split, and the model's sizes."""
    split = parser.add_argument_group("how the model is split")
    split.add_argument("--tensor-parallel-size", "-tp", type=int, default=1)
    split.add_argument("--pipeline-parallel-size", "-pp", type=int, default=1)
    split.add_argument("--data-parallel-size", "-dp", type=int, default=None, help="default: the ranks that are left")
    split.add_argument("--context-parallel-size", "-cp", type=int, default=1)
    split.add_argument("--enable-expert-parallel", action="store_true", help="divide the experts over all ranks of a stage")
    sizes = parser.add_argument_group("the model")
    sizes.add_argument("--layers", type=int, default=4)
    sizes.add_argument("--hidden", type=int, default=64)
    sizes.add_argument("--heads", type=int, default=4)
    sizes.add_argument("--kv-heads", type=int, default=None)
    sizes.add_argument("--experts", type=int, default=0, help="0: every layer has one multilayer perceptron")
    sizes.add_argument("--topk", type=int, default=2, help="experts of a token")
    sizes.add_argument("--length", type=int, default=128, help="tokens of a sequence")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")


def initialize(arguments: argparse.Namespace, comm=None) -> tp.Parallel:
    """The groups that the flags ask for; comm: the job's communicator, if it has been made."""
    parallel = tp.initialize(comm, tensor_parallel_size=arguments.tensor_parallel_size,
                             pipeline_parallel_size=arguments.pipeline_parallel_size,
                             data_parallel_size=arguments.data_parallel_size,
                             context_parallel_size=arguments.context_parallel_size,
                             enable_expert_parallel=arguments.enable_expert_parallel)
    # PyTorch would use every core in every rank.
    hosts = parallel.comm.hosts
    cores = len(os.sched_getaffinity(0)) // hosts.count(hosts[parallel.comm.rank])
    torch.set_num_threads(max(1, min(cores, torch.get_num_threads())))
    return parallel


class Block(nn.Module):
    """Attention, then a multilayer perceptron or a mixture of experts; each adds to its input."""

    def __init__(self, sizes: argparse.Namespace, sequence_parallel: bool) -> None:
        super().__init__()
        how = {"sequence_parallel": sequence_parallel}
        self.length = sizes.length
        self.before_attention = tp.LayerNorm(sizes.hidden, **how)
        self.attention = tp.ParallelAttention(sizes.hidden, sizes.heads, sizes.kv_heads, **how)
        self.before_mlp = tp.LayerNorm(sizes.hidden, **how)
        if sizes.experts:
            self.mlp = tp.MoELayer(sizes.hidden, 4 * sizes.hidden, sizes.experts, sizes.topk, **how)
        else:
            self.mlp = tp.ParallelMLP(sizes.hidden, 4 * sizes.hidden, **how)

    def forward(self, x: torch.Tensor, cache=None) -> torch.Tensor:
        x = x + self.attention(self.before_attention(x), cache, sequence=self.length)
        return x + self.mlp(self.before_mlp(x))


class Stage(nn.Module):
    """Layers [first, last) of the model, with what comes before the first and after the last one.

    The first layer's stage takes token ids [tokens, batch], the others what the stage before gives: [tokens, batch,
    hidden], with sequence parallelism this rank's part of the tokens. The last one gives this rank's part of the logits:
    [tokens, batch, vocabulary / tensor_parallel_size].
    """

    def __init__(self, sizes: argparse.Namespace, first: int, last: int, sequence_parallel: bool = False) -> None:
        super().__init__()
        self.first, self.is_first, self.is_last = first, first == 0, last == sizes.layers
        self.sequence_parallel = sequence_parallel
        how = {"sequence_parallel": sequence_parallel}

        # Each layer has its own seed, so that a seed is one model, wherever its layers are.
        def seeded(number: int) -> None:
            torch.manual_seed(sizes.seed * (sizes.layers + 2) + number)

        if self.is_first:
            seeded(sizes.layers)
            self.embedding = tp.VocabParallelEmbedding(VOCABULARY, sizes.hidden, **how)
            self.positions = nn.Parameter(torch.randn(sizes.length, sizes.hidden) * 0.02)
        self.layers = nn.ModuleDict()
        for number in range(first, last):
            seeded(number)
            self.layers[str(number)] = Block(sizes, sequence_parallel)
        if self.is_last:
            seeded(sizes.layers + 1)
            self.before_head = tp.LayerNorm(sizes.hidden, **how)
            self.head = tp.ColumnParallelLinear(sizes.hidden, VOCABULARY, bias=False, **how)

    def forward(self, x: torch.Tensor, cache=None) -> torch.Tensor:
        if self.is_first:
            x = self.embedding(x) + self.at(self.places(x, cache))
        for number, layer in self.layers.items():
            x = layer(x, cache.layer(int(number) - self.first) if cache else None)
        return self.head(self.before_head(x)) if self.is_last else x

    def places(self, ids: torch.Tensor, cache) -> torch.Tensor:
        """The tokens' positions in their sequences."""
        if cache:
            return cache.starts + torch.arange(ids.shape[0], device=ids.device)[:, None]
        if tp.current().context.size > 1:
            return torch.tensor(tp.positions(self.positions.shape[0]), device=ids.device)[:, None]
        return torch.arange(ids.shape[0], device=ids.device)[:, None]

    def at(self, places: torch.Tensor) -> torch.Tensor:
        table = self.positions
        if self.sequence_parallel:  # this rank sees a part of the tokens: the gradients of all are summed
            table = tp.copy_to_tensor_model_parallel_region(table)
            places = tp.scatter_to_sequence_parallel_region(places.int()).long()
        return table[places]


def layers_of(sizes: argparse.Namespace, number: int, chunks: int) -> tuple[int, int]:
    """The layers [first, last) of a chunk of the model, of so many."""
    return number * sizes.layers // chunks, (number + 1) * sizes.layers // chunks


def text(path: str = "/usr/share/common-licenses/GPL-3") -> torch.Tensor:
    """The bytes of a text that every Debian has."""
    with open(path, "rb") as file:
        return torch.tensor(list(file.read()))
