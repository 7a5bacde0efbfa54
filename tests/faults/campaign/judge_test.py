"""Tests the judge of the fault campaign: python3 -m unittest discover -s tests -p '*_test.py'"""

import unittest

from campaign import judge, trial
from campaign.cluster import Record

FAILED = "failed after 12 ms of waiting: another rank failed or left: "
WHO = {rank: f"rank {rank} (host host{rank // 2}, pid 1{rank})" for rank in range(4)}


def sorts(kind, lines, ended=True, standstill_ms=0.0, **more):
    """The sorts of fault found in a trial on two hosts with two ranks each."""
    one = trial.Trial(0, kind, 2, 2, 1, "", 1000, 3, 1000, {}, False, **more)
    record = Record("\n".join(f"rank {line}" for line in lines), ended, [], 1.0, 0.0, standstill_ms)
    return sorted({sort for sort, _ in judge.judge(one, record)})


def survivors(message, members="1 2 3"):
    lines = []
    for rank in (1, 2, 3):
        lines += [f"{rank} runs", f"{rank} {FAILED}{message}", f"{rank} is done: 3 operations"]
        lines.insert(-1, f"{rank} goes on as rank {rank - 1} of 3 after 5 ms: with ranks {members}")
    return lines


KILL = {"dead": {0}, "guilty": {0}}
DIED = f"{WHO[0]} died while {WHO[1]} waited for it in all_reduce(count=3, float32, sum) as operation 3"


class Judge(unittest.TestCase):
    def test_finds_nothing_where_all_is_well(self):
        self.assertEqual(sorts("kill", survivors(DIED), **KILL), [])
        self.assertEqual(sorts("none", [f"{rank} is done: 3 operations" for rank in range(4)]), [])

    def test_sees_who_did_not_end(self):
        self.assertEqual(sorts("kill", survivors(DIED)[:-1], ended=False, **KILL), ["apart", "hung"])
        self.assertEqual(sorts("kill", survivors(DIED)[:-1], **KILL), ["apart", "crashed"])

    def test_sees_late_answers(self):
        late = [line.replace("after 12 ms", "after 9000 ms") for line in survivors(DIED)]
        self.assertEqual(sorts("kill", late, **KILL), ["hung"])

    def test_does_not_judge_a_machine_that_stood_still(self):
        late = survivors(DIED)[:-1]
        self.assertEqual(sorts("kill", late, ended=False, standstill_ms=1500.0, **KILL), ["void"])
        self.assertEqual(sorts("kill", late, ended=False, standstill_ms=900.0, **KILL), ["apart", "hung"])
        self.assertEqual(sorts("kill", survivors(DIED), standstill_ms=1500.0, **KILL), [])
        wrong = survivors(DIED) + ["3 has a wrong result: element 0"]
        self.assertIn("wrong", sorts("kill", wrong, standstill_ms=1500.0, **KILL))

    def test_sees_wrong_results(self):
        self.assertIn("wrong", sorts("kill", survivors(DIED) + ["3 has a wrong result: element 0"], **KILL))

    def test_sees_who_is_blamed(self):
        self.assertEqual(sorts("kill", survivors(DIED.replace(WHO[0], WHO[2], 1)), **KILL), ["unnamed"])
        self.assertEqual(sorts("kill", survivors("something happened"), **KILL), ["unnamed"])

    def test_sees_false_alarms(self):
        lines = [f"{rank} is done: 3 operations" for rank in range(3)] + [f"3 {FAILED}{DIED}"]
        self.assertEqual(sorts("stop", lines), ["false alarm"])

    def test_sees_communicators_of_others(self):
        self.assertEqual(sorts("kill", survivors(DIED, members="1 2"), **KILL), ["apart"])

    def test_sees_that_ranks_of_one_side_accuse_each_other(self):
        sides = [{0, 1}, {2, 3}]
        cut = f"{WHO[1]} was lost (its connection was closed) while {WHO[2]} waited for it in barrier() as operation 3"
        lines = [f"{rank} {FAILED}{cut}" for rank in range(4)]
        lines += [f"{rank} goes on as rank {rank} of 4 after 5 ms: with ranks 0 1 2 3" for rank in range(4)]
        lines += [f"{rank} is done: 3 operations" for rank in range(4)]
        self.assertEqual(sorts("partition_healed_late", lines, sides=sides), [])
        wrong = [line.replace(f"while {WHO[2]}", f"while {WHO[0]}") for line in lines]
        self.assertEqual(sorts("partition_healed_late", wrong, sides=sides), ["unnamed"])

    def test_sees_who_is_left_out_when_a_cut_is_healed(self):
        cut = f"{WHO[1]} was lost (its connection was closed) while {WHO[2]} waited for it in barrier() as operation 3"

        def goes_on(*communicators):
            lines = []
            for members in communicators:
                for rank in members:
                    lines += [f"{rank} {FAILED}{cut}", f"{rank} is done: 3 operations"]
                    ranks = " ".join(map(str, members))
                    lines.insert(-1, f"{rank} goes on as rank 0 of {len(members)} after 5 ms: with ranks {ranks}")
            return sorts("partition_healed_late", lines, sides=[{0, 1}, {2, 3}])

        self.assertEqual(goes_on([0, 1], [2, 3]), [])
        self.assertEqual(goes_on([0, 1, 2], [3]), [])
        self.assertEqual(goes_on([0, 1, 2, 3]), [])
        self.assertEqual(goes_on([0, 1], [2], [3]), ["apart"])
        self.assertEqual(goes_on([0], [1, 2, 3]), ["apart"])


if __name__ == "__main__":
    unittest.main()
