"""Generates text with the GPT that train.py has saved, on any split of it.

    tutti run -n 4 python3 generate.py gpt.pt --tensor-parallel-size 2 --pipeline-parallel-size 2

Requests come at different times and have different lengths. Each replica (data parallelism) has some of them, and runs
all that are under way together: a new one's prompt in one pass, then a token of each in a pass.
"""

import argparse
import collections
import dataclasses
import time

import torch

import model as gpt
import tutti.parallel as tp

PROMPTS = ["The licenses for most", "This program is free software", "You may", "For example, if you distribute",
           "NO WARRANTY", "The \"source code\" for a work", "Each licensee is addressed as", "A"]


@dataclasses.dataclass
class Request:
    number: int
    prompt: list[int]
    tokens: list[int]  # what has been generated
    comes: int         # the step before which it is not there


class Engine:
    """One replica: its part of the model, and the cache of the sequences under way."""

    def __init__(self, arguments: argparse.Namespace, parallel: tp.Parallel, slots: int) -> None:
        self.parallel, self.sizes = parallel, arguments
        first, last = gpt.layers_of(arguments, parallel.pipeline.rank, parallel.pipeline.size)
        self.stage = gpt.Stage(arguments, first, last).to(arguments.device)
        self.cache = tp.KeyValueCache(last - first, slots, arguments.length, arguments.kv_heads or arguments.heads,
                                      arguments.hidden // arguments.heads, device=arguments.device)

    @torch.no_grad()
    def step(self, ids: torch.Tensor, slots: list[int], starts: list[int]) -> list[int]:
        """One pass of tokens ids [tokens, batch] of the sequences in these slots; the most probable next token of each."""
        device = self.sizes.device
        self.cache.place(torch.tensor(slots, device=device), torch.tensor(starts, device=device))
        x = ids.to(device) if self.stage.is_first else torch.empty(0, device=device)
        logits = tp.forward_through(lambda one: self.stage(one, self.cache), x, (*ids.shape, self.sizes.hidden))
        chosen = torch.empty(len(slots), dtype=torch.int64, device=device)
        if logits is not None:
            chosen = tp.gather_from_tensor_model_parallel_region(logits[-1]).argmax(-1)
        self.parallel.pipeline.broadcast(chosen, self.parallel.pipeline.size - 1)
        return chosen.tolist()


def serve(engine: Engine, requests: list[Request], slots: int, tokens: int) -> tuple[int, list[float]]:
    """Runs all requests to their ends; returns the steps, and the seconds of each step in which every sequence got a token."""
    waiting, running, free = collections.deque(requests), {}, list(range(slots))
    step, seconds = 0, []
    while waiting or running:
        while waiting and free and waiting[0].comes <= step:
            request, slot = waiting.popleft(), free.pop(0)
            request.tokens += engine.step(torch.tensor(request.prompt)[:, None], [slot], [0])
            running[slot] = request
        if running:
            began = time.perf_counter()
            places = list(running)
            ids = torch.tensor([[running[slot].tokens[-1] for slot in places]])
            starts = [len(running[slot].prompt) + len(running[slot].tokens) - 1 for slot in places]
            for slot, token in zip(places, engine.step(ids, places, starts)):
                running[slot].tokens.append(token)
                if len(running[slot].tokens) >= tokens:
                    free.append(slot)
                    del running[slot]
            seconds.append(time.perf_counter() - began)
        step += 1
    return step, seconds


def parse(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="what train.py --save has written; an empty name: a model that knows nothing")
    gpt.add_flags(parser)
    parser.add_argument("--tokens", type=int, default=32, help="to generate for each request")
    parser.add_argument("--requests", type=int, default=len(PROMPTS))
    parser.add_argument("--slots", type=int, default=4, help="sequences that a replica runs at a time")
    return parser.parse_args(words)


def generate(arguments: argparse.Namespace, comm=None) -> list[bytes]:
    """Serves the requests, and returns the texts, prompts included."""
    saved = torch.load(arguments.model) if arguments.model else None
    if saved:
        vars(arguments).update(saved["sizes"])
    longest = max(len(prompt) for prompt in PROMPTS) + arguments.tokens
    if longest > arguments.length:
        raise SystemExit(f"a text would have {longest} tokens, but the model's --length is {arguments.length}")
    with gpt.initialize(arguments, comm) as parallel:
        replicas = parallel.data.size
        if parallel.expert.size > 1 and replicas > 1 and (arguments.requests % replicas or arguments.slots % replicas):
            raise SystemExit(f"{replicas} replicas share their experts, so they make equally many passes: --requests "
                             f"({arguments.requests}) and --slots ({arguments.slots}) must divide by {replicas}")
        engine = Engine(arguments, parallel, arguments.slots)
        if saved:
            tp.load_whole_state_dict(engine.stage, saved["state"])
        every = [Request(number, list(PROMPTS[number % len(PROMPTS)].encode()), [], comes=3 * (number // arguments.slots))
                 for number in range(arguments.requests)]
        mine = every[parallel.data.rank::parallel.data.size]
        steps, seconds = serve(engine, mine, arguments.slots, arguments.tokens)
        done = {one.number: bytes(one.prompt + one.tokens) for one in mine}
        texts = {number: text for part in parallel.comm.all_gather_object(done) for number, text in part.items()}
        if parallel.comm.rank == 0:
            for number in sorted(texts):
                print(f"{number}: {texts[number].decode(errors='replace')!r}")
            middle = sorted(seconds)[len(seconds) // 2] * 1e6
            print(f"# {steps} steps; {middle:.0f} us a step, the median of {len(seconds)}")
    return [texts[number] for number in sorted(texts)]


if __name__ == "__main__":
    generate(parse())
