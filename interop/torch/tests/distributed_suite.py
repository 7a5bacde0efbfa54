"""PyTorch's own distributed_test.py, as it is installed, on backend tutti.

    BACKEND=tutti WORLD_SIZE=2 TEMP_DIR=... python distributed_suite.py [-v] [TESTS]      (or distributed_test.sh)

The suite decides by the backend's name which tests apply. Backends that are not PyTorch's own are told to it by its own
lists (`backend_feature`): this one does sub-groups and DDP. TUTTI_SUITE_AS_STRANGER=1 leaves the lists alone.
"""

import os
import sys
import unittest

import torch.multiprocessing
import torch.testing._internal.common_distributed as common
import tutti_torch  # noqa: F401

if os.environ["BACKEND"] == "tutti" and "TUTTI_SUITE_AS_STRANGER" not in os.environ:
    for feature in ("ddp", "subgroup", "plugin"):
        getattr(common.DistTestCases, "backend_feature", {}).get(feature, set()).add("tutti")

from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend  # noqa: E402


# Upstream starts a new interpreter for each rank of each test, most of whose time goes into importing PyTorch. The
# parent here has made no group and no thread, so a fork of it is as good: hundreds of tests take minutes, not an hour.
CONTEXT = torch.multiprocessing.get_context(os.environ.get("TUTTI_SUITE_START", "fork"))


class TestDistributed(TestDistBackend, DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._start_processes(CONTEXT.Process)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
