"""A small transformer for the tests of data parallelism, its batches, and its training on one rank."""

import torch
from torch import nn

VOCABULARY, HIDDEN, LENGTH, BATCH = 29, 10, 7, 8  # BATCH sequences are divided over the ranks


class Block(nn.Module):

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(HIDDEN)
        self.attention = nn.Linear(HIDDEN, 3 * HIDDEN, bias=False)  # a key's bias has no gradient but noise
        self.up, self.down = nn.Linear(HIDDEN, 23), nn.Linear(23, HIDDEN)

    def forward(self, x):
        q, k, v = self.attention(self.norm(x)).chunk(3, -1)
        x = x + torch.softmax(q @ k.transpose(1, 2), -1) @ v
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


class Model(nn.Module):

    def __init__(self, blocks=3, tied=False):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN)
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))
        self.norm = nn.LayerNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Raising(torch.autograd.Function):
    """Raises in backward, if told to."""

    @staticmethod
    def forward(ctx, x, when):
        ctx.when = when
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        if ctx.when:
            raise RuntimeError("this rank's own error")
        return grad, None


def model(seed=1, dtype=torch.float32, **options):
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    return Model(**options).to(dtype)


def batch(step):
    return torch.randint(VOCABULARY, (BATCH, LENGTH), generator=torch.Generator().manual_seed(step))


def loss_of(module, ids):
    """Each sequence predicts itself, shifted."""
    logits = module(ids)[:, :-1]
    return torch.nn.functional.cross_entropy(logits.float().reshape(-1, VOCABULARY), ids[:, 1:].reshape(-1))


def mine(ids, rank, size):
    return ids.chunk(size)[rank]


def adam(parameters, **options):
    return torch.optim.AdamW(parameters, lr=1e-2, eps=1e-5, **options)


def alone(steps=4, dtype=torch.float32, make_optimizer=adam, clip=None, **options):
    """One rank's training by plain PyTorch: (losses, the module)."""
    module = model(dtype=dtype, **options)
    optimizer = make_optimizer(module.parameters())
    losses = []
    for step in range(steps):
        loss = loss_of(module, batch(step))
        loss.backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(module.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, module
