"""One trial of the fault campaign: a cluster, the work of its ranks, a fault and its time. It is derived only from the
campaign's seed and the trial's number."""

import dataclasses
import random

# The range of TUTTI_SILENCE_MS, after which a silent system counts as dead. Without data in flight, detection takes
# three probes, a second apart.
LEAST_SILENCE_MS, MOST_SILENCE_MS = 1000, 1500
# A system retransmits unanswered data after 200, 600 and 1400 ms. So after an interruption of less than 600 ms, a
# system answers again within the least silence. After a longer interruption it may not.
LONGEST_INTERRUPTION_MS = 500
TOO_LONG_MS = 600
# Time after which ranks end by themselves: QUIET_SECONDS for harmless kinds, else ENDLESS_SECONDS.
QUIET_SECONDS = 3
ENDLESS_SECONDS = 300
GO_ON_MS = 300
SEVERAL_GO_ON_MS = 1500
# By then, all sides of a partition have continued on their own.
LATEST_HEALING_MS = 6500
HEALED_SECONDS = 10
INIT_TIMEOUT_MS = 8000
# A queue so short that a flood fills it at once, even on a slow machine.
FLOODED_QUEUE = 64

# Settings that must be equal on all ranks. Each trial chooses values for some of them.
SETTINGS = {
    "TUTTI_ALGO": ["ring", "two_level", "double_binary_tree", "two_level_tree"],
    "TUTTI_CHANNELS": ["1", "2", "4"],
    "TUTTI_PROTO": ["inline", "bulk"],
    "TUTTI_CHUNK": ["4096", "65536"],
    "TUTTI_THREADS": ["2"],
    "TUTTI_SOCKETS": ["1", "2", "4"],
    "TUTTI_ZERO_COPY": ["0"],
    "TUTTI_CMA": ["on", "off"],
    "TUTTI_DETERMINISTIC": ["1"],
}

# The relative frequency of each kind of fault.
KINDS = {
    "none": 2,
    "kill": 4,
    "kill_several": 4,
    "power_off": 4,
    "link_down": 3,
    "nic_down": 2,
    "link_flap": 3,
    "partition": 3,
    "partition_healed_soon": 2,
    "partition_healed_late": 4,
    "stop": 3,
    "slow": 2,
    "abort": 3,
    "revoke": 3,
    "mismatch": 3,
    "strangers": 2,
    "flooded": 0,
    "flooded_shrink": 0,
}
# Faults that start only after the ranks' program has a communicator.
OF_THE_PROGRAM = {"abort", "revoke", "mismatch", "slow", "flooded", "flooded_shrink"}
INTERRUPTIONS = {"link_flap", "partition_healed_soon"}
# Faults that ranks detect only after a system has been silent for a while.
SILENT = {"power_off", "link_down", "nic_down", "partition", "partition_healed_late"}
# Faults in which both sides of a partition may get each other's failures.
REACHABLE = {"nic_down", "partition_healed_late"}
HARMLESS = {"none", "link_flap", "partition_healed_soon", "stop", "slow", "strangers", "flooded"}
# The fraction of trials with the fault while the ranks join.
EARLY = 0.25
# The fractions of trials in which ranks also call other collectives, one rank shrinks late, and one more rank dies.
MIX, PAUSE, ONE_MORE = 0.4, 0.2, 0.2
LATEST_PAUSE_MS = 3000
LATEST_ONE_MORE_MS = 5000


@dataclasses.dataclass
class Act:
    """One action on the cluster, `after_ms` after the previous one."""

    after_ms: int
    what: str  # "control" or "rank"
    arguments: list

    def __str__(self):
        return f"{self.after_ms} ms later {self.what} {' '.join(self.arguments)}"


@dataclasses.dataclass
class Trial:
    number: int
    kind: str
    hosts: int
    ranks_per_host: int
    nics: int
    bandwidth: str
    bytes: int
    seconds: int
    silence_ms: int
    settings: dict
    early: bool  # the first act's time counts from the first rank's start, not from the time when all ranks run
    acts: list = dataclasses.field(default_factory=list)
    options: list = dataclasses.field(default_factory=list)
    dead: set = dataclasses.field(default_factory=set)  # ranks that must not continue
    guilty: set = dataclasses.field(default_factory=set)  # errors must name one of these ranks
    queue: int = 0  # the length of each port's accept queue; 0: the system's default
    sides: list = dataclasses.field(default_factory=list)  # sets of ranks that a partition separates for good

    @property
    def ranks(self):
        return self.hosts * self.ranks_per_host

    @property
    def harmless(self):
        return self.kind in HARMLESS

    def ranks_of(self, host):
        return set(range(host * self.ranks_per_host, (host + 1) * self.ranks_per_host))

    def guilty_for(self, rank):
        """Ranks that `rank` may blame: those on the other side of a partition, and those at fault for all ranks."""
        for side in self.sides:
            if self.kind in REACHABLE:
                return set(range(self.ranks))
            if rank in side:
                return set(range(self.ranks)) - side | self.guilty
        return self.guilty

    def parted(self, rank, other):
        """Whether a partition separates the two ranks."""
        return any((rank in side) != (other in side) for side in self.sides)

    def survivors(self):
        return set(range(self.ranks)) - self.dead

    def __str__(self):
        settings = " ".join(f"{name}={value}" for name, value in sorted(self.settings.items()))
        acts = "; ".join(map(str, self.acts)) or "nothing"
        begin = "first rank's start" if self.early else "all ranks' first operation"
        return (
            f"trial {self.number}: {self.kind}: {self.hosts} hosts of {self.ranks_per_host} ranks, {self.nics} nics, "
            f"{self.bandwidth or 'any bandwidth'}, {self.bytes} bytes, silence {self.silence_ms} ms, "
            f"{settings or 'no settings'}, {' '.join(self.options)}; after the {begin}: {acts}"
        )


def pick_settings(rng):
    names = rng.sample(sorted(SETTINGS), rng.choice([0, 0, 1, 2, 3]))
    return {name: rng.choice(SETTINGS[name]) for name in sorted(names)}


def derive(seed, number, kinds=None):
    """The trial with this number. Its kind is one of `kinds`, if given."""
    rng = random.Random(f"{seed}/{number}")
    weights = dict.fromkeys(kinds, 1) if kinds else KINDS
    kind = rng.choices(list(weights), list(weights.values()))[0]
    nics = 2 if kind == "nic_down" else rng.choice([1, 1, 2])
    trial = Trial(
        number=number,
        kind=kind,
        hosts=rng.randint(2, 4),
        ranks_per_host=rng.randint(1, 3),
        nics=nics,
        bandwidth=rng.choice(["", "1gbit", "200mbit"]),
        bytes=int(8 * 2 ** rng.uniform(0, 19)),  # up to 4 MB
        seconds=QUIET_SECONDS if kind in HARMLESS else ENDLESS_SECONDS,
        silence_ms=rng.randint(LEAST_SILENCE_MS, MOST_SILENCE_MS),
        settings=pick_settings(rng),
        early=kind not in OF_THE_PROGRAM and rng.random() < EARLY,
    )
    # The time of the fault in ms, after the first rank's start (early) or all ranks' first operation.
    begin = rng.randint(0, 600 if trial.early else 1500)
    if kind not in HARMLESS:
        trial.options.append(f"shrink={GO_ON_MS}")
    globals()[f"plan_{kind}"](trial, rng, begin)
    complicate(trial, random.Random(f"{seed}/{number}/more"))
    return trial


def complicate(trial, rng):
    if rng.random() < MIX:
        trial.options.append("mix=1")
    if trial.kind in HARMLESS or trial.kind == "flooded_shrink":
        return
    if rng.random() < PAUSE:
        trial.options.append(f"pause={rng.randrange(trial.ranks)}:{rng.randint(0, LATEST_PAUSE_MS)}")
    if rng.random() < ONE_MORE and trial.kind != "nic_down":
        victim = rng.choice(sorted(trial.survivors()))
        trial.acts.append(Act(rng.randint(0, LATEST_ONE_MORE_MS), "rank", [str(victim), "kill"]))
        trial.dead = trial.dead | {victim}
        trial.guilty = trial.guilty | {victim}
        trial.options[0] = f"shrink={SEVERAL_GO_ON_MS}"


# One plan for each kind: its acts, the ranks to blame, and the ranks that survive.


def plan_none(trial, rng, begin):
    pass


def plan_kill(trial, rng, begin):
    victim = rng.randrange(trial.ranks)
    trial.acts.append(Act(begin, "rank", [str(victim), "kill"]))
    trial.dead = trial.guilty = {victim}


def plan_kill_several(trial, rng, begin):
    victims = rng.sample(range(trial.ranks), rng.randint(1, max(1, trial.ranks - 1)))
    # Kills all victims at once, or the rest while or after the survivors shrink.
    at_once = rng.choice([1, len(victims), len(victims)])
    for group in filter(None, (victims[:at_once], victims[at_once:])):
        trial.acts.append(Act(begin, "rank", [",".join(map(str, group)), "kill"]))
        begin = rng.randint(0, 1500)
    trial.dead = trial.guilty = set(victims)
    trial.options = [f"shrink={SEVERAL_GO_ON_MS}"]


def plan_power_off(trial, rng, begin):
    host = rng.randrange(trial.hosts)
    trial.acts.append(Act(begin, "control", ["power-off", f"host{host}"]))
    trial.dead = trial.guilty = trial.ranks_of(host)


def cut_off(trial, hosts):
    side = set().union(*(trial.ranks_of(host) for host in hosts))
    trial.sides = [side, set(range(trial.ranks)) - side]


def plan_link_down(trial, rng, begin):
    host = rng.randrange(trial.hosts)
    trial.acts.append(Act(begin, "control", ["link-down", f"host{host}"]))
    cut_off(trial, [host])


def plan_nic_down(trial, rng, begin):
    """If no connection uses this interface, ranks continue without an error. Otherwise they fail, and then shrink over
    the other interface."""
    host = rng.randrange(trial.hosts)
    trial.seconds = 2 * QUIET_SECONDS
    trial.acts.append(Act(begin, "control", ["link-down", f"host{host}", str(rng.randrange(trial.nics))]))
    cut_off(trial, [host])


def plan_link_flap(trial, rng, begin):
    host = f"host{rng.randrange(trial.hosts)}"
    trial.acts.append(Act(begin, "control", ["link-down", host]))
    trial.acts.append(Act(rng.randint(50, LONGEST_INTERRUPTION_MS), "control", ["link-up", host]))


def part(trial, rng, begin):
    hosts = rng.sample(range(trial.hosts), rng.randint(1, trial.hosts - 1))
    trial.acts.append(Act(begin, "control", ["partition", ",".join(f"host{host}" for host in sorted(hosts))]))
    return hosts


def plan_partition(trial, rng, begin):
    cut_off(trial, part(trial, rng, begin))


def plan_partition_healed_soon(trial, rng, begin):
    part(trial, rng, begin)
    trial.acts.append(Act(rng.randint(50, LONGEST_INTERRUPTION_MS), "control", ["heal"]))


def plan_partition_healed_late(trial, rng, begin):
    """Heals the partition while the survivors shrink, or afterwards."""
    trial.seconds = HEALED_SECONDS  # the partition may heal before any rank has noticed it
    cut_off(trial, part(trial, rng, begin))
    trial.acts.append(Act(rng.randint(trial.silence_ms, LATEST_HEALING_MS), "control", ["heal"]))


def plan_stop(trial, rng, begin):
    """Stops a rank as a debugger does. The other ranks must wait, however long it takes."""
    victim = str(rng.randrange(trial.ranks))
    trial.acts.append(Act(begin, "rank", [victim, "stop"]))
    trial.acts.append(Act(rng.randint(100, 2 * trial.silence_ms), "rank", [victim, "continue"]))


def plan_strangers(trial, rng, begin):
    trial.acts.append(Act(begin, "rank", [str(rng.randrange(trial.ranks)), "strangers"]))


def flood(trial, rng, rank, begin, seconds):
    trial.queue = FLOODED_QUEUE
    trial.acts.append(Act(begin, "rank", [str(rank), "flood", f"{seconds:.1f}", str(rng.randrange(1 << 30))]))


def compute_ms(trial, rng):
    """A time for which a rank computes outside the library, longer than silence_ms."""
    return rng.randint(int(1.5 * trial.silence_ms), 3 * trial.silence_ms)


def plan_flooded(trial, rng, begin):
    """Floods all ports of a host whose rank computes, from the first operation, which makes connections, or later."""
    victim = rng.randrange(trial.ranks)
    trial.options.append(f"slow={victim}:{compute_ms(trial, rng)}")
    flood(trial, rng, victim, rng.choice([0, begin]), 2 * QUIET_SECONDS)


def plan_flooded_shrink(trial, rng, begin):
    """Kills a rank. The others must shrink although one of them computes and its host's ports are flooded."""
    victim, busy = rng.sample(range(trial.ranks), 2)
    pause = compute_ms(trial, rng)
    flood(trial, rng, busy, begin, 1 + 2 * pause / 1000)
    trial.acts.append(Act(rng.randint(0, 500), "rank", [str(victim), "kill"]))
    trial.dead = trial.guilty = {victim}
    trial.options.append(f"pause={busy}:{pause}")


def plan_slow(trial, rng, begin):
    trial.options.append(f"slow={rng.randrange(trial.ranks)}:{rng.choice([5, 50, 500])}")


def plan_abort(trial, rng, begin):
    aborter = rng.randrange(trial.ranks)
    trial.options.append(f"abort={aborter}:{begin}")
    trial.dead = trial.guilty = {aborter}


def plan_revoke(trial, rng, begin):
    revoker = rng.randrange(trial.ranks)
    trial.options.append(f"revoke={revoker}:{begin}")
    trial.guilty = {revoker}


def plan_mismatch(trial, rng, begin):
    odd = rng.randrange(trial.ranks)
    trial.options.append(f"{rng.choice(['count', 'operator', 'call'])}={odd}:{begin}")
    trial.guilty = {odd}
