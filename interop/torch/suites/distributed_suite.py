"""Runs the installed PyTorch's own distributed_test.py on backend tutti.

    BACKEND=tutti WORLD_SIZE=2 TEMP_DIR=... python distributed_suite.py [TESTS]      (or suites.sh)

The suite chooses the tests by the backend's name. Its lists `backend_feature` declare the features of other backends
than PyTorch's own. This file adds tutti to the lists for sub-groups, DDP and plugins.

Most of the tests run only for certain backend names. With TUTTI_SUITE_STAND_IN=1 and BACKEND=gloo (or mpi), the suite
runs as for that backend, but every group that it creates uses tutti. So every test for Gloo (or MPI) runs on tutti.
"""

import os

import torch.distributed
import torch.testing._internal.common_distributed as common
import tutti_torch  # noqa: F401

import suite

BACKEND = os.environ["BACKEND"]

if "TUTTI_SUITE_STAND_IN" in os.environ:
    suite.stand_in_for(BACKEND)
    torch.distributed.is_mpi_available = lambda: True
elif BACKEND == "tutti":
    for feature in ("ddp", "subgroup", "plugin"):
        getattr(common.DistTestCases, "backend_feature", {}).get(feature, set()).add("tutti")

from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend  # noqa: E402


class TestDistributed(TestDistBackend, DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._start_processes(suite.CONTEXT.Process)


if __name__ == "__main__":
    suite.main()
