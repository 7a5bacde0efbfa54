"""What the programs that run PyTorch's own tests share: tutti in another backend's place, and a file of results."""

import functools
import os
import re
import sys
import unittest

import torch.distributed
import torch.multiprocessing

# Upstream starts a new interpreter for each rank of each test, and spends most of the time importing PyTorch. Here the
# parent has no group and no thread, so a fork works as well, and hundreds of tests take minutes instead of an hour.
CONTEXT = torch.multiprocessing.get_context(os.environ.get("TUTTI_SUITE_START", "fork"))
LONGEST_REASON = 300  # characters


def _replace(function, position, name):
    """Wraps `function` and replaces the backend's `name`, passed at `position` or as `backend`, by tutti."""

    @functools.wraps(function)
    def replaced(*arguments, **named):
        arguments = list(arguments)
        if len(arguments) > position and arguments[position] == name:
            arguments[position] = "tutti"
        if named.get("backend") == name:
            named["backend"] = "tutti"
        return function(*arguments, **named)

    return replaced


def stand_in_for(name):
    """From now on every group that would use backend `name` uses tutti."""
    torch.distributed.init_process_group = _replace(torch.distributed.init_process_group, 0, name)
    torch.distributed.new_group = _replace(torch.distributed.new_group, 2, name)


def _reason(text):
    """The error itself, from a traceback of the parent that contains the ranks'."""
    name = r"(?:\w+\.)*\w*(?:Error|Exception|Failure|Argument)\b"
    errors = re.findall(rf"^({name}.*(?:\n(?!\s|$|To execute|Process|Trace).*)?)", text, re.MULTILINE)
    # The parent's own error only says which rank failed.
    errors = [one for one in errors if not re.match(r"RuntimeError: Process \d+ (exited|terminated)", one)] or errors
    return " ".join((errors[0] if errors else text).split())[:LONGEST_REASON]


class _Result(unittest.TextTestResult):
    """Also writes `test <tab> outcome <tab> reason` for each test to the file named in TUTTI_SUITE_RESULTS."""

    def _write(self, test, outcome, reason=""):
        with open(os.environ["TUTTI_SUITE_RESULTS"], "a") as file:
            print(test.id().split(".", 1)[-1], outcome, reason, sep="\t", file=file)

    def addSuccess(self, test):
        super().addSuccess(test)
        self._write(test, "passed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._write(test, "skipped", " ".join(reason.split())[:LONGEST_REASON])

    def addError(self, test, error):
        super().addError(test, error)
        self._write(test, "failed", _reason(self.errors[-1][1]))

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self._write(test, "failed", _reason(self.failures[-1][1]))


def main(module="__main__", arguments=None):
    writes = "TUTTI_SUITE_RESULTS" in os.environ
    runner = unittest.TextTestRunner(resultclass=_Result if writes else unittest.TextTestResult, verbosity=2)
    unittest.main(module, argv=arguments or sys.argv, testRunner=runner)
