"""Runs PyTorch's test_c10d_gloo.py, its tests of Gloo's backend, on Gloo or on tutti.

    [TUTTI_SUITE_STAND_IN=1] python gloo_suite.py FOLDER [TESTS]                     (or suites.sh)

FOLDER is test/distributed of PyTorch's source, which has the file; PyTorch's package does not have it. With
TUTTI_SUITE_STAND_IN=1 every group that the tests create uses tutti, also where they make Gloo's ProcessGroup object.
"""

import itertools
import os
import sys

import torch
import torch.distributed as dist
import torch.testing._internal.common_distributed as common
import tutti_torch

import suite

number = itertools.count()


class StandIn:
    """Makes tutti's backend from the arguments of Gloo's. All ranks make their groups in one order."""

    _Options = dist.ProcessGroupGloo._Options
    create_device = dist.ProcessGroupGloo.create_device
    create_default_device = dist.ProcessGroupGloo.create_default_device

    def __new__(cls, store, rank, size, options):
        return tutti_torch._C.create(store, rank, size, options._timeout.total_seconds(), f"group {next(number)}",
                                     list(range(size)))


common.MultiProcessTestCase._spawn_processes = lambda self: self._start_processes(suite.CONTEXT.Process)
sys.path.insert(0, os.path.abspath(sys.argv[1]))
import test_c10d_gloo  # noqa: E402


def create(_self, store, rank, size, options):
    """As the tests' own function, whose dist.barrier accepts Gloo's object, but no other backend's."""
    group = StandIn(store, rank, size, options)
    group.barrier().wait()
    return group


if "TUTTI_SUITE_STAND_IN" in os.environ:
    test_c10d_gloo.ProcessGroupGlooTest._create_process_group_gloo = create
    suite.stand_in_for("gloo")
    dist.ProcessGroupGloo = StandIn
    # Some tests make a network device of Gloo's through the group, and use it nowhere.
    torch._C._distributed_c10d.Backend.create_device = staticmethod(lambda **_named: None)

if __name__ == "__main__":
    suite.main(test_c10d_gloo, [sys.argv[0], *sys.argv[2:]])
