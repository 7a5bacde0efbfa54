"""Judges the output of a trial's ranks (see tests/faults/host_rank.cc): finds all faults, by sort.

What each kind of fault must lead to:
- none, stop (SIGSTOP for up to twice the silence), slow (a rank computes between operations), strangers (on all ports of
  a host), flooded (thousands of strangers, while a rank computes for longer than the silence), link_flap,
  partition_healed_soon: no alarm.
- kill, kill_several (at once, or one after the other), flooded_shrink (one rank ends while another computes and is
  flooded), power_off, abort: the others name a rank that is gone, and go on without those that are gone.
- revoke, mismatch (another count, operator or collective): all name the rank that did it, and go on together.
- link_down, partition: each side names a rank beyond the cut, and goes on with exactly its own ranks.
- nic_down (one interface of two): no alarm where nothing went over it; else as above, and all go on together.
- partition_healed_late (at a random moment from the silence on): as partition, but ranks may move to the other side, one
  by one or all. A rank that was in reach of a communicator's lowest rank from the start is not left out of it unless it
  moved, and a rank that comes too late is informed. Communicators never overlap.
"""

import re

from campaign.trial import INTERRUPTIONS, REACHABLE, SILENT, TOO_LONG_MS

# The sorts of fault, in the order of the table's columns.
SORTS = [
    "hung",  # a survivor did not end, or failed later than docs/faults.md states
    "crashed",  # it ended without a message
    "wrong",  # a result
    "unnamed",  # a message blames no rank, or the wrong one
    "false alarm",
    "apart",  # survivors did not continue with the ranks they should
    "undone",  # the trial's fault could not be caused
]
# The trial is not judged and not failed, because the machine was too slow for it or stood still.
VOID = "void"
# A shorter standstill excuses nothing, because every timeout in a trial is at least a second. The sorts of fault in
# UNEXPLAINED count even in a standstill.
STANDSTILL_MS = 1000
UNEXPLAINED = {"crashed", "wrong"}

# Survivors detect a dead process within a second, and a silent system after the trial's silence_ms. If no data is in
# flight, they detect a silent system only after three probes, a second apart.
DEATH_MS = 1000
PROBES_MS = 4000
# Allowance for a busy machine and for the operation itself.
BUSY_MS = 4000

WHO = r"rank (\d+) \(host \S+, pid \d+\)"
# Phrases that name the rank to blame. If a phrase names several ranks, at least one of them must be at fault.
BLAMES = [
    WHO + r" (?:died|was lost|destroyed its communicator|aborted|revoked|left while|is gone)",
    WHO + r" (?:did not answer|does not receive)",
    r"; so (?:was|did) " + WHO,
    r"in [\w ]+?(\d+)?, which waits for " + WHO,
    r"the first is " + WHO,
    r"could not read the memory of " + WHO,
    r"do not match: " + WHO + r" called .*, but (?:the data that )?" + WHO + r" (?:called|sent)",
    r"could not reach " + WHO,
    WHO + r" expects \d+ bytes from " + WHO,
    r"ranks? ([\d, and-]+) of \d+ never joined",
    r"rank (\d+) of this host left",
    WHO + r" is alive, but has not called",
    WHO + r", which collects the remaining ranks",
]
WAITED = WHO + r" was lost .* while " + WHO
# These messages blame rank 0, which opens the rendezvous.
BLAMES_RANK_0 = r"opened by rank 0\)|the rendezvous closed its connection|the rendezvous did not report"

LEFT_OUT = "the other ranks go on without"


class Story:
    """The output of one rank, in order."""

    def __init__(self, rank):
        self.rank = rank
        self.failures = []  # (ms, message, number of communicators made before); includes failures to join
        self.members = []  # of each communicator with which it continues; None if that one failed at once
        self.joined = True
        self.done = self.aborted = self.wrong = False
        self.stuck = None  # why it cannot continue

    def hear(self, text):
        if found := re.match(r"(failed|did not join) after (\d+) ms[^:]*: (.*)", text):
            self.failures.append((int(found[2]), found[3], len(self.members)))
            self.joined = self.joined and found[1] == "failed"
        elif found := re.match(r"goes on as rank \d+ of \d+ after \d+ ms: (?:with ranks ([\d ]+))?", text):
            self.members.append(tuple(map(int, found[1].split())) if found[1] else None)
        elif found := re.match(r"cannot go on after \d+ ms: (.*)", text):
            self.stuck = found[1]
        elif text.startswith("has a wrong result"):
            self.wrong = True
        elif text.startswith("is done"):
            self.done = True
        elif text == "aborts":
            self.aborted = True

    def final(self):
        """The members of its last communicator, if it has shrunk and is done."""
        return self.members[-1] if self.done and self.members else None

    def original(self, ranks, generation):
        """Translates ranks of the communicator with this index (`generation`) to ranks of the first."""
        members = self.members[generation - 1] if generation else None
        return {members[rank] for rank in ranks if rank < len(members)} if members else ranks

    def ended(self):
        return self.done or self.aborted or self.wrong or not self.joined or self.stuck is not None


def tell_stories(output, ranks):
    stories = [Story(rank) for rank in range(ranks)]
    for rank, text in re.findall(r"^rank (\d+) (.*)$", output, re.M):
        stories[int(rank)].hear(text)
    return stories


def numbers(text):
    """The ranks in a text such as "3", "1, 2 and 4" or "2-5"."""
    found = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text or ""):
        found |= set(range(int(first), int(last or first) + 1))
    return found


def blamed(message):
    """The ranks that a message blames."""
    found = {0} if re.search(BLAMES_RANK_0, message) else set()
    for pattern in BLAMES:
        for match in re.finditer(pattern, message):
            found |= set().union(*map(numbers, match.groups()))
    return found


def judge(trial, record):
    """The faults of a trial: pairs of a sort and a sentence."""
    stories = tell_stories(record.output, trial.ranks)
    survivors = [stories[rank] for rank in sorted(trial.survivors())]
    bad = [("undone", problem) for problem in record.trouble if not was_over(problem, stories)]
    bad += [("wrong", f"rank {story.rank} has a wrong result") for story in stories if story.wrong]
    for story in survivors:
        ended = story.ended() or (trial.harmless and story.failures)
        if not ended and not record.ended:
            bad.append(("hung", f"rank {story.rank} did not end"))
        elif not ended:
            bad.append(("crashed", f"rank {story.rank} ended without a word"))
        if trial.harmless:
            bad += [("false alarm", f"rank {story.rank}: {message}") for _, message, _ in story.failures]
        else:
            bad += judge_failures(trial, story)
    if bad and trial.kind in INTERRUPTIONS and record.acts_ms > TOO_LONG_MS:
        return [(VOID, f"interrupted for up to {record.acts_ms:.0f} ms")]
    if not trial.harmless:
        bad += judge_who_goes_on(trial, stories)
    if bad and record.standstill_ms > STANDSTILL_MS and not UNEXPLAINED & {sort for sort, _ in bad}:
        return [(VOID, f"the machine stood still for {record.standstill_ms:.0f} ms; else {bad[0][0]}: {bad[0][1]}")]
    return bad


def was_over(problem, stories):
    """Whether an act failed because its rank had already ended."""
    found = re.search(r"rank (\d+) of \S+ is not there", problem)
    return found and stories[int(found[1])].ended()


def judge_failures(trial, story):
    limit = (trial.silence_ms + PROBES_MS if trial.kind in SILENT else DEATH_MS) + BUSY_MS
    for index, (ms, message, generation) in enumerate(story.failures):
        if story.joined and ms > limit:
            yield "hung", f"rank {story.rank} failed only after {ms} ms, more than {limit}"
        culprits = story.original(blamed(message), generation)
        # Ranks that continue may blame any dead rank later, but no rank that notices the partition only then.
        guilty = trial.guilty_for(story.rank) | (trial.dead if index else set())
        if not culprits & guilty:
            yield "unnamed", f"rank {story.rank} blames {sorted(culprits)}, not {sorted(guilty)}: {message}"
        elif trial.sides and (found := re.search(WAITED, message)):
            lost, waiting = (story.original({int(rank)}, generation) for rank in found.groups())
            if not trial.parted(min(lost), min(waiting)) and not lost & trial.dead:
                yield "unnamed", f"rank {story.rank} hears of {lost} and {waiting}, which nothing parts: {message}"


def judge_who_goes_on(trial, stories):
    """Checks that communicators do not overlap, and that ranks which could always reach each other share one."""
    final = {story.rank: story.final() for story in stories if story.final()}
    for rank, members in final.items():
        for other in members:
            if final.get(other, members) != members:
                yield "apart", f"rank {rank} goes on with {members}, rank {other} with {final[other]}"
            elif other not in final and other in trial.survivors():
                yield "apart", f"rank {rank} goes on with {members}, but rank {other} does not"
    for story in stories:
        if story.rank not in trial.survivors():
            continue
        if story.stuck and not (trial.kind in REACHABLE and LEFT_OUT in story.stuck):
            yield "apart", f"rank {story.rank} cannot go on: {story.stuck}"
        if story.rank not in final:
            continue
        members = set(final[story.rank])
        if trial.kind == "partition_healed_late":
            missing = missed_where_healed(trial, members, stories, final)
        else:
            missing = with_whom(trial, story, stories) ^ members
        if missing:
            yield "apart", f"rank {story.rank} goes on with {sorted(members)}; missing or too many: {sorted(missing)}"


def with_whom(trial, story, stories):
    """The ranks that must share the last communicator of this rank. A rank may be done before it is killed."""
    everybody = {
        other.rank
        for other in stories
        if other.joined and not other.stuck and other.failures and (other.done or other.rank in trial.survivors())
    }
    if trial.kind in REACHABLE - {"partition_healed_late"}:
        return everybody
    for side in trial.sides:
        if story.rank in side:
            return everybody & side
    return everybody


def missed_where_healed(trial, members, stories, final):
    """The ranks that are wrongly missing in a communicator, whose leader is its lowest member. If a partition heals
    while both sides shrink, ranks may join a leader that they can now reach, but the leader's own side must stay
    complete."""
    leader = min(members)
    went_over = {rank for rank, others in final.items() if trial.parted(min(others), leader)}
    return with_whom(trial, stories[leader], stories) - went_over - members
