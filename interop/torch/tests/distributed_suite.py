"""PyTorch's own distributed_test.py, as it is installed, on backend tutti.

    BACKEND=tutti WORLD_SIZE=2 TEMP_DIR=... python distributed_suite.py [-v] [TESTS]      (or distributed_test.sh)

The suite decides by the backend's name which tests apply. Backends that are not PyTorch's own are told to it by its own
lists (`backend_feature`): this one does sub-groups and DDP.

Most of the suite is asked of backends with the right name only. With TUTTI_SUITE_STAND_IN=1 and BACKEND=gloo (or mpi) the
suite believes that it tests that one, while each group that it asks of it is made of tutti: so every test that applies to
Gloo (or MPI) is run on tutti.
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
    """`function`, with the backend's name at `position` or by name replaced."""

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


# Upstream starts a new interpreter for each rank of each test and spends most of the time importing PyTorch. The parent
# here has made no group and no thread, so a fork works as well: hundreds of tests take minutes, not an hour.
CONTEXT = torch.multiprocessing.get_context(os.environ.get("TUTTI_SUITE_START", "fork"))


class TestDistributed(TestDistBackend, DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._start_processes(CONTEXT.Process)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
