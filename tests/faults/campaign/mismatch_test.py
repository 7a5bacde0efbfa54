"""Tests how the mismatch campaign derives trials from a seed, and how it judges the ranks' reports."""

import unittest

from campaign import mismatch

NAMED = ("the ranks' calls do not match: rank 1 (host h, pid 7) called broadcast(count=1, int32, root=1) as operation 1, "
         "but rank 0 (host h, pid 6) called broadcast(count=1, int32, root=0)")


def judged(*answers):
    return [sort for sort, _ in mismatch.judge(dict(enumerate(answers)), mismatch.ANSWER_MS)]


class Trials(unittest.TestCase):
    def test_calls_differ_and_a_third_is_rooted(self):
        trials = [mismatch.derive(7, number) for number in range(2000)]
        for trial in trials:
            self.assertEqual(len(trial.own), trial.ranks)
            self.assertGreater(len({call.signature() for call in trial.own}), 1, trial)
        self.assertGreater(sum(trial.rooted() for trial in trials), len(trials) / 3)

    def test_follow_from_seed_and_number(self):
        self.assertEqual(mismatch.derive(3, 5), mismatch.derive(3, 5))
        self.assertNotEqual(mismatch.derive(3, 5), mismatch.derive(3, 6))


class Judge(unittest.TestCase):
    def test_an_answer_names_both_ranks_and_calls(self):
        told = mismatch.Told("5", "next", 3.0, NAMED)
        self.assertEqual(judged(told, told), [])
        self.assertEqual(judged(mismatch.Told("5", "next", 3.0, NAMED.split(", but")[0])), ["unnamed"])

    def test_everything_else_is_a_fault(self):
        self.assertEqual(judged(mismatch.Told("0", "silent", 3.0, "")), ["silent"])
        self.assertEqual(judged(mismatch.Told("5", "next", 1500.0, NAMED)), ["late"])
        self.assertEqual(judged(mismatch.Told("6", "next", 3.0, NAMED)), ["other code"])
        self.assertEqual(judged(mismatch.Told("5", "before", 3.0, NAMED)), ["false alarm"])
        for answer, sort in {"hung": "hung", "died": "crashed", "wrong": "wrong"}.items():
            self.assertEqual(judged(mismatch.Told(answer, "-", 0.0, "")), [sort])

    def test_what_ranks_say_is_read(self):
        number, rank, told = mismatch.parse(f"12 3 5 next 4.5 {NAMED}\n")
        self.assertEqual((number, rank, told), (12, 3, mismatch.Told("5", "next", 4.5, NAMED)))
        self.assertEqual(mismatch.parse("12 3 hung - 0")[2].sentence, "")


if __name__ == "__main__":
    unittest.main()
