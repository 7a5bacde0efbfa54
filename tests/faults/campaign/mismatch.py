"""One trial of the mismatch campaign: its ranks, their hosts, and one call for each rank, of which at least two differ.
It is derived only from the campaign's seed and the trial's number."""

import dataclasses
import random
import re

ROOTED = ["broadcast", "reduce", "gather", "scatter"]
DEPENDENT = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"]
FORMS = ["all_gather_v", "reduce_scatter_v", "all_to_all_v",
         "all_gather_tensor", "reduce_scatter_tensor", "all_to_all_tensor"]
REDUCING = {"all_reduce", "reduce", "reduce_scatter", "reduce_scatter_v", "reduce_scatter_tensor"}
TYPES = ["int8", "int32", "float32", "float64"]
OPS = ["sum", "max", "min"]
COUNTS = [1, 2, 7, 10, 100, 300, 5000, 40000]
# The relative frequency of each kind of disagreement.
KINDS = {"roots": 5, "rooted kinds": 4, "kinds": 5, "details": 3, "one call less": 1, "messages": 1,
         "message details": 1, "all differ": 2}
MODES = {"plain": 6, "stream": 2, "group": 2, "nonblocking": 1}
TIMES = [1, 1, 1, 1, 1, 2, 8, 30, 64, 70]
# The count of a trial's last calls, which match. No other call uses it.
NEXT_COUNT = 13

ANSWER_MS = 1000
INVALID_USAGE = "5"
# The sorts of fault, in the order of the table's columns.
SORTS = ["silent", "hung", "crashed", "wrong", "other code", "unnamed", "late", "false alarm"]

WHO = re.compile(r"rank (\d+) \(host \S+, pid \d+\)")
CALL = re.compile(r"\b(?:all_\w+|reduce\w*|broadcast|gather|scatter|barrier|send|receive)\(")
PAIRWISE = re.compile(r"expects \d+ bytes from rank \d+ .* but \d+ were sent")


@dataclasses.dataclass(frozen=True)
class Call:
    kind: str
    type: str = "int32"
    op: str = "sum"
    count: int = 1
    root: int = 0
    variant: int = 0

    def __str__(self):
        return f"{self.kind}:{self.type}:{self.op}:{self.count}:{self.root}:{self.variant}"

    def signature(self):
        """The properties of the call that must be equal on all ranks."""
        if self.kind in ("idle", "barrier"):
            return (self.kind,)
        parts = [self.kind, self.type]
        if self.kind in REDUCING:
            parts.append(self.op)
        if self.kind in ROOTED:
            parts.append(self.root)
        if self.kind in ("all_gather_v", "reduce_scatter_v"):
            parts.append(self.variant % 4)
        if self.kind.endswith("_tensor"):
            parts.append(self.variant % 2)
        return (*parts, self.count)


@dataclasses.dataclass
class Trial:
    number: int
    kind: str
    ranks: int
    hosts: int
    threads: bool
    helpers: int
    mode: str
    times: int
    before: list
    own: list
    next: Call

    def line(self):
        words = [self.number, self.ranks, self.hosts, int(self.threads), self.helpers, self.mode, self.times]
        return " ".join(map(str, [*words, *self.before, "/", *self.own, "/", self.next]))

    def rooted(self):
        return all(call.kind in ROOTED for call in self.own)

    def __str__(self):
        where = "threads" if self.threads else "processes"
        return (f"trial {self.number}: {self.kind}: {self.ranks} {where} on {self.hosts} hosts, {self.helpers} threads "
                f"each, {self.mode}, {self.times} times {', '.join(map(str, self.own))}; then {self.next}")


def weighted(rng, weights):
    return rng.choices(list(weights), weights=list(weights.values()))[0]


def some_call(rng, ranks, kinds):
    return Call(rng.choice(kinds), rng.choice(TYPES), rng.choice(OPS), rng.choice(COUNTS), rng.randrange(ranks),
                rng.randrange(4))


def another(rng, call, change):
    """A call from `change` whose signature differs from that of `call`."""
    while True:
        if (other := change()).signature() != call.signature():
            return other


def detail(rng, ranks, call):
    """The call with one of its arguments changed."""
    name = rng.choice(["type", "op", "count", "root", "variant"])
    value = {"type": rng.choice(TYPES), "op": rng.choice(OPS), "count": rng.choice(COUNTS),
             "root": rng.randrange(ranks), "variant": rng.randrange(4)}[name]
    return dataclasses.replace(call, **{name: value})


def own_calls(rng, kind, ranks):
    every = ROOTED + DEPENDENT + FORMS
    odd = set(rng.sample(range(ranks), rng.randrange(1, ranks)))
    if kind == "all differ":
        calls = [some_call(rng, ranks, rng.choice([ROOTED, every])) for _ in range(ranks)]
        calls[-1] = another(rng, calls[0], lambda: some_call(rng, ranks, every))
        return calls
    if kind == "message details":
        sender, receiver = rng.sample(range(ranks), 2)
        sent = some_call(rng, ranks, ["send"])
        # A message may have the same number of bytes although counts and types differ.
        got = another(rng, sent, lambda: dataclasses.replace(detail(rng, ranks, sent), kind="send"))
        calls = [Call("idle")] * ranks
        calls[sender] = dataclasses.replace(sent, root=receiver)
        calls[receiver] = dataclasses.replace(got, kind="receive", root=sender)
        return calls
    if kind == "roots":
        usual = some_call(rng, ranks, ROOTED)
        calls = [dataclasses.replace(usual, root=rng.randrange(ranks)) for _ in range(ranks)]
        calls[-1] = another(rng, calls[0], lambda: dataclasses.replace(usual, root=rng.randrange(ranks)))
        return calls
    if kind == "rooted kinds":
        usual = some_call(rng, ranks, ROOTED)
        strange = another(rng, usual, lambda: some_call(rng, ranks, ROOTED))
    elif kind == "one call less":
        usual, strange = some_call(rng, ranks, every), Call("idle")
    elif kind == "messages":
        usual = some_call(rng, ranks, every)
        odd = {rng.randrange(ranks)}
        peer = rng.choice([r for r in range(ranks) if r not in odd])
        strange = dataclasses.replace(some_call(rng, ranks, ["send", "receive"]), root=peer)
    elif kind == "details":
        usual = some_call(rng, ranks, [each for each in every if each not in ("barrier", "all_to_all_v")])
        strange = another(rng, usual, lambda: detail(rng, ranks, usual))
    else:
        usual = some_call(rng, ranks, every)
        strange = another(rng, usual, lambda: some_call(rng, ranks, every))
    return [strange if r in odd else usual for r in range(ranks)]


def derive(seed, number):
    rng = random.Random(f"{seed}/{number}")
    kind = weighted(rng, KINDS)
    ranks = rng.randint(2, 5)
    message = kind.startswith("message")
    own = own_calls(rng, kind, ranks)
    # All barriers are equal, so a rank that is one call behind would match the other ranks' barrier with its next one.
    following = [each for each in DEPENDENT if each != "barrier" or each not in (call.kind for call in own)]
    return Trial(
        number=number,
        kind=kind,
        ranks=ranks,
        # Between hosts, a message ends only by its timeout if it waits for a rank that waits for the sender.
        hosts=1 if kind == "messages" else rng.choice([1, 1, 1, 2, 2]),
        threads=rng.random() < 0.4,
        helpers=rng.choice([1, 1, 1, 2]),
        mode="plain" if message else weighted(rng, MODES),
        times=1 if message else rng.choice(TIMES),
        before=[dataclasses.replace(some_call(rng, ranks, ROOTED + DEPENDENT + FORMS)) for _ in range(rng.randrange(4))],
        own=own,
        next=dataclasses.replace(some_call(rng, ranks, following), count=NEXT_COUNT),
    )


@dataclasses.dataclass
class Told:
    """A rank's report."""

    answer: str
    stage: str
    ms: float
    sentence: str


def parse(line):
    number, rank, answer, stage, ms, *sentence = line.split(" ", 5)
    return int(number), int(rank), Told(answer, stage, float(ms), sentence[0].strip() if sentence else "")


def names_all(sentence):
    """Whether the message names both ranks, and both calls or, for counts that only a pair knows, both counts."""
    if len(set(WHO.findall(sentence))) < 2:
        return False
    return len(CALL.findall(sentence)) >= 2 or bool(PAIRWISE.search(sentence))


def judge(told, late_ms):
    """All faults, as pairs of a sort and a sentence. `told` has the reports by rank."""
    bad = []
    for rank, one in sorted(told.items()):
        say = lambda sort: bad.append((sort, f"rank {rank}, {one.stage}, {one.ms:.0f} ms: {one.answer} {one.sentence}"))
        if one.answer in ("hung", "wrong"):
            say(one.answer)
        elif one.answer == "died":
            say("crashed")
        elif one.stage == "silent":
            say("silent")
        elif one.stage in ("join", "before"):
            say("false alarm")
        elif one.answer != INVALID_USAGE:
            say("other code")
        else:
            if not names_all(one.sentence):
                say("unnamed")
            if one.ms > late_ms:
                say("late")
    return bad
