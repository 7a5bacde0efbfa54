"""Runs the installed PyTorch's own distributed_test.py on backend tutti.

    BACKEND=tutti WORLD_SIZE=2 TEMP_DIR=... python distributed_suite.py [-v] [TESTS]      (or distributed_test.sh)

The suite chooses the tests by the backend's name. Its lists `backend_feature` declare the features of other backends
than PyTorch's own. This file adds tutti to the lists for sub-groups, DDP and plugins.

Most of the tests run only for certain backend names. With TUTTI_SUITE_STAND_IN=1 and BACKEND=gloo (or mpi), the suite
runs as for that backend, but every group that it creates uses tutti. So every test for Gloo (or MPI) runs on tutti.
"""

import functools
import os
import sys
import unittest

import torch.distributed
import torch.multiprocessing
import torch.testing._internal.common_distributed as common
import tutti_torch  # noqa: F401

BACKEND = os.environ["BACKEND"]


def stand_in(function, position):
    """Wraps `function` and replaces the backend's name, passed at `position` or as `backend`, by tutti."""

    @functools.wraps(function)
    def replaced(*arguments, **named):
        arguments = list(arguments)
        if len(arguments) > position and arguments[position] == BACKEND:
            arguments[position] = "tutti"
        if named.get("backend") == BACKEND:
            named["backend"] = "tutti"
        return function(*arguments, **named)

    return replaced


if "TUTTI_SUITE_STAND_IN" in os.environ:
    torch.distributed.init_process_group = stand_in(torch.distributed.init_process_group, 0)
    torch.distributed.new_group = stand_in(torch.distributed.new_group, 2)
    torch.distributed.is_mpi_available = lambda: True
elif BACKEND == "tutti":
    for feature in ("ddp", "subgroup", "plugin"):
        getattr(common.DistTestCases, "backend_feature", {}).get(feature, set()).add("tutti")

from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend  # noqa: E402


# Upstream starts a new interpreter for each rank of each test, and spends most of the time importing PyTorch. Here the
# parent has no group and no thread, so a fork works as well, and hundreds of tests take minutes instead of an hour.
CONTEXT = torch.multiprocessing.get_context(os.environ.get("TUTTI_SUITE_START", "fork"))


class TestDistributed(TestDistBackend, DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._start_processes(CONTEXT.Process)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
