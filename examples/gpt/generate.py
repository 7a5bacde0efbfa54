"""Generates text with the GPT that train.py has saved, on any split of it.

    tutti run -n 2 python3 generate.py gpt.pt --tensor-parallel-size 2
    tutti run -n 5 python3 generate.py gpt.pt --tensor-parallel-size 2 --data-parallel-size 2

Each replica runs all requests that it has together: a new one's prompt in a pass, then a token of each in a pass. The
second job has two replicas of two ranks, and one rank more, the front: requests come to it one after the other, and it
gives each to the replica that has least to do. Without a front a replica has all of them from the start.
"""

import argparse
import collections
import contextlib
import dataclasses
import time

import torch

import model as gpt
import tutti
import tutti.parallel as tp

PROMPTS = ["The licenses for most", "This program is free software", "You may", "For example, if you distribute",
           "NO WARRANTY", "The \"source code\" for a work", "Each licensee is addressed as", "A"]
PAUSE = 1e-3  # seconds that a rank without work waits before it looks for some

Request = collections.namedtuple("Request", "id bytes")  # as tp.Replica.poll() returns


@dataclasses.dataclass
class Sequence:
    request: Request
    tokens: list[int] = dataclasses.field(default_factory=list)  # what has been generated

    def text(self) -> bytes:
        return self.request.bytes + bytes(self.tokens)

    def place(self) -> int:
        """The last token's."""
        return len(self.request.bytes) + len(self.tokens) - 1


class Requests:
    """All requests from the start, as a tp.Replica: for the one replica of a job without a front."""

    def __init__(self, prompts: list[bytes]) -> None:
        self._waiting = collections.deque(map(Request._make, enumerate(prompts)))
        self.texts: dict[int, bytes] = {}

    @property
    def stopped(self) -> bool:
        return not self._waiting

    def poll(self) -> Request | None:
        return self._waiting.popleft() if self._waiting else None

    def reply(self, number: int, text: bytes) -> None:
        self.texts[number] = text


class Engine:
    """This rank's part of a replica's model, and of the cache of the sequences under way."""

    def __init__(self, arguments: argparse.Namespace, parallel: tp.Parallel, slots: int) -> None:
        self.parallel, self.sizes = parallel, arguments
        first, last = gpt.layers_of(arguments, parallel.pipeline.rank, parallel.pipeline.size)
        self.stage = gpt.Stage(arguments, first, last).to(arguments.device)
        self.cache = tp.KeyValueCache(last - first, slots, arguments.length, arguments.kv_heads or arguments.heads,
                                      arguments.hidden // arguments.heads, device=arguments.device)

    @torch.no_grad()
    def step(self, ids: torch.Tensor, slots: list[int], starts: list[int]) -> list[int]:
        """A pass of tokens ids [tokens, batch] of the sequences in these slots; the most probable next token of each."""
        device = self.sizes.device
        self.cache.place(*(torch.tensor(one, dtype=torch.int64, device=device) for one in (slots, starts)))
        x = ids.to(device) if self.stage.is_first else torch.empty(0, device=device)
        logits = tp.forward_through(lambda one: self.stage(one, self.cache), x, (*ids.shape, self.sizes.hidden))
        chosen = torch.empty(len(slots), dtype=torch.int64, device=device)
        if logits is not None:
            chosen = tp.gather_from_tensor_model_parallel_region(logits[-1]).argmax(-1)
        self.parallel.pipeline.broadcast(chosen, self.parallel.pipeline.size - 1)
        return chosen.tolist()

    def begin(self, sequence: Sequence, slot: int) -> None:
        """A new sequence's prompt, and its first token."""
        sequence.tokens += self.step(torch.tensor(list(sequence.request.bytes))[:, None], [slot], [0])

    def decode(self, running: dict[int, Sequence]) -> None:
        """A token of each sequence, by slot. None are running: a pass without tokens."""
        ids = torch.tensor([[one.tokens[-1] for one in running.values()]], dtype=torch.int64)
        places = [one.place() for one in running.values()]
        for sequence, token in zip(running.values(), self.step(ids, list(running), places)):
            sequence.tokens.append(token)


def serve(engine: Engine, requests: tp.Replica | Requests, slots: int, tokens: int) -> list[float]:
    """Runs requests until no more come; returns the seconds of each pass in which every sequence got a token."""
    running, free, seconds = {}, list(range(slots)), []
    while True:
        new = requests.poll() if free else None
        if not tp.any_replica_has_work(new is not None or bool(running)):
            if not tp.any_replica_has_work(not requests.stopped):
                return seconds
            time.sleep(PAUSE)
            continue
        began = time.perf_counter()
        if new is not None:
            slot = free.pop(0)
            running[slot] = Sequence(new)
            engine.begin(running[slot], slot)
        else:
            engine.decode(running)
            if running:
                seconds.append(time.perf_counter() - began)
        for slot, sequence in list(running.items()):
            if len(sequence.tokens) >= tokens:
                requests.reply(sequence.request.id, sequence.text())
                free.append(slot)
                del running[slot]


def front(comm: tutti.Communicator, prompts: list[bytes], arguments: argparse.Namespace) -> dict[int, bytes]:
    """Gives the requests to the replicas as they come; returns the texts."""
    router = tp.ReplicaRouter(comm)
    numbers: dict[int, int] = {}  # of requests, by id
    texts: dict[int, bytes] = {}
    began = time.monotonic()
    while len(texts) < len(prompts):
        due = (time.monotonic() - began) / arguments.interval if arguments.interval else len(prompts)
        while len(numbers) < min(due, len(prompts)):
            numbers[router.submit(prompts[len(numbers)], cost=arguments.tokens)] = len(numbers)
        reply = router.poll()
        if reply is None:
            time.sleep(PAUSE)
        else:
            texts[numbers[reply.id]] = reply.bytes
    router.stop()
    for number, ranks in enumerate(router.replicas):
        print(f"# replica {number}, ranks {ranks}: {router.statistics(number).replied} requests")
    router.close()
    return texts


def parse(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="what train.py --save has written; an empty name: a model that knows nothing")
    gpt.add_flags(parser)
    parser.add_argument("--tokens", type=int, default=32, help="to generate for each request")
    parser.add_argument("--requests", type=int, default=len(PROMPTS))
    parser.add_argument("--interval", type=float, default=0.01, help="seconds between requests that come to the front")
    parser.add_argument("--slots", type=int, default=4, help="sequences that a replica runs at a time")
    arguments = parser.parse_args(words)
    for name in ("requests", "slots"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name} is {getattr(arguments, name)}: at least 1 is needed")
    return arguments


def replica(comm: tutti.Communicator, world: tutti.Communicator, prompts: list[bytes],
            arguments: argparse.Namespace, state: dict | None) -> dict[int, bytes]:
    """Serves as one of the ranks `comm` that have the replicas; returns the texts if there is no front."""
    with gpt.initialize(arguments, comm) as parallel:
        engine = Engine(arguments, parallel, arguments.slots)
        if state:
            tp.load_whole_state_dict(engine.stage, state)
        requests = Requests(prompts) if comm is world else tp.Replica(world)
        seconds = sorted(serve(engine, requests, arguments.slots, arguments.tokens))
        if seconds and comm.rank == 0:
            print(f"# {1e6 * seconds[len(seconds) // 2]:.0f} us for a token of each sequence, the median of {len(seconds)}")
        if comm is world:
            return requests.texts
        requests.close()
    comm.close()
    return {}


def generate(arguments: argparse.Namespace, world: tutti.Communicator | None = None) -> list[bytes]:
    """Serves the requests, and returns the texts, prompts included."""
    saved = torch.load(arguments.model) if arguments.model else {}
    vars(arguments).update(saved.get("sizes", {}))
    prompts = [PROMPTS[number % len(PROMPTS)].encode() for number in range(arguments.requests)]
    longest = max(map(len, prompts)) + arguments.tokens
    if longest > arguments.length:
        raise SystemExit(f"a text would have {longest} tokens, but the model's --length is {arguments.length}")
    with contextlib.nullcontext(world) if world else tutti.init() as world:
        ranks = arguments.tensor_parallel_size * arguments.pipeline_parallel_size * arguments.context_parallel_size
        if world.size != ranks and world.size % ranks != 1 % ranks:
            raise SystemExit(f"{world.size} ranks are neither one replica of {ranks} ranks nor several and a front")
        is_front = world.size > ranks and world.rank == world.size - 1
        comm = world if world.size == ranks else world.split(None if is_front else 0)
        if is_front:
            texts = front(world, prompts, arguments)
        else:
            texts = replica(comm, world, prompts, arguments, saved.get("state"))
        texts = world.broadcast_object(texts, world.size - 1)  # the front, or a rank of the one replica
        if world.rank == 0:
            for number in sorted(texts):
                print(f"{number}: {texts[number].decode(errors='replace')!r}")
    return [texts[number] for number in sorted(texts)]


if __name__ == "__main__":
    generate(parse())
