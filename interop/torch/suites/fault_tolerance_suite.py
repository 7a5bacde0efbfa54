"""Runs PyTorch's test_c10d_fault_tolerance.py, its tests of groups that are reconfigured, on Gloo or on tutti.

    [TUTTI_SUITE_STAND_IN=1] python fault_tolerance_suite.py FOLDER [TESTS]                     (or suites.sh)

FOLDER is test/distributed of PyTorch's source, which has the file; PyTorch's package does not have it. With
TUTTI_SUITE_STAND_IN=1 every group that the tests create uses tutti.
"""

import os
import sys

import torch.testing._internal.common_distributed as common
import tutti_torch  # noqa: F401

import suite

common.MultiProcessTestCase._spawn_processes = lambda self: self._start_processes(suite.CONTEXT.Process)
sys.path.insert(0, os.path.abspath(sys.argv[1]))
import test_c10d_fault_tolerance  # noqa: E402

if "TUTTI_SUITE_STAND_IN" in os.environ:
    suite.stand_in_for("gloo")

if __name__ == "__main__":
    suite.main(test_c10d_fault_tolerance, [sys.argv[0], *sys.argv[2:]])
