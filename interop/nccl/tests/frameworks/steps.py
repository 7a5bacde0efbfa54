"""What a start-up test does, step by step, and what it tells of it.

A step is a function, and its name is the step's. It passes if the function returns. Once a step has failed, the steps
after it are not run. A step that goes beyond what a machine without a GPU can do must be refused with an error whose
text matches a pattern: its message is recorded as the reason why the framework got no further. Should it pass, it counts
as any other step.
"""
import ctypes
import json
import os
import re
import sys
import traceback

REPORT = "REPORT "  # ranks.py looks for this line


class Steps:
    def __init__(self):
        self.passed, self.refused, self.failed = [], {}, {}

    def run(self, *functions):
        for function in functions:
            self._try(function, None)

    def beyond(self, pattern, *functions):
        for function in functions:
            self._try(function, pattern)

    def _try(self, function, refusal):
        if self.failed:
            return
        name = function.__name__.replace("_", " ")
        try:
            function()
            self.passed.append(name)
        except Exception as error:  # whatever it is, it is the result
            text = one_line(error)
            if refusal is not None and re.search(refusal, text):
                self.refused[name] = text
                return
            traceback.print_exc()
            self.failed[name] = text if refusal is None else f"the error does not say why: {text}"

    def note(self, name, text):
        """Records something that was seen and that no step decides."""
        self.refused[name] = text

    def end(self, clean_up=True):
        """Reports, and ends the process, by default as an ordinary program ends, so that its clean-up is tested too."""
        print(REPORT + json.dumps({"passed": self.passed, "refused": self.refused, "failed": self.failed}), flush=True)
        status = 1 if self.failed else 0
        if clean_up:
            sys.exit(status)
        sys.stderr.flush()
        os._exit(status)


def one_line(error):
    longest = 400
    advice = " Search for `"  # where PyTorch's errors go on with a link
    text = " ".join(f"{type(error).__name__}: {error}".split()).split(advice)[0]
    return text if len(text) <= longest else text[:longest] + "..."


def check(got, wanted):
    if got != wanted:
        raise AssertionError(f"got {got}, not {wanted}")


def library_is_ours():
    """Fails unless the process finds NCCL's functions in the library under test.

    PyTorch also maps NVIDIA's, by its path, but what is linked with libnccl.so.2 finds the first that was loaded.
    """
    address = ctypes.cast(ctypes.CDLL(None).ncclCommInitRankConfig, ctypes.c_void_p).value
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            first, last = (int(bound, 16) for bound in line.split()[0].split("-"))
            if first <= address < last:
                check(os.path.realpath(line.split()[-1]), os.path.realpath(os.environ["FRAMEWORKS_NCCL"]))
                return
    raise AssertionError("no mapping contains ncclCommInitRankConfig")


def rank_and_ranks():
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
