"""Tutti: collective communication between the processes of one machine or several.

    comm = tutti.init()                      # under torchrun, srun, mpirun, or alone
    total = comm.all_reduce(numpy.ones(4))   # a new array; all_reduce(x, x): in place

docs/python.md in Tutti's source tree describes the package.
"""

from __future__ import annotations

import enum

from ._communicator import Communicator, init
from ._core import Work, library_version, settings, unique_id
from ._errors import (CudaError, Error, InternalError, InvalidArgumentError, InvalidUsageError, OperatingSystemError,
                      RemoteError, Result, TimeoutError)
from ._grouping import Group, group
from ._streams import Stream

__version__ = "0.2.0"
# One process has one library of a soname: the first that any package brought. A patch version does not change the ABI.
if library_version()[:2] != tuple(map(int, __version__.split(".")[:2])):
    raise ImportError(f"this is the package tutti {__version__}, but libtutti {'.'.join(map(str, library_version()))} is "
                      "loaded: install the same version of tutti and tutti-torch, and take other folders with a "
                      "libtutti.so out of LD_LIBRARY_PATH")


class Op(enum.IntEnum):
    """Operators of reductions; their names as text are taken, too. AVG of integers divides towards zero."""

    SUM = 0
    PROD = 1
    MAX = 2
    MIN = 3
    AVG = 4


__all__ = ["Communicator", "CudaError", "Error", "Group", "InternalError", "InvalidArgumentError", "InvalidUsageError",
           "Op", "OperatingSystemError", "RemoteError", "Result", "Stream", "TimeoutError", "Work", "group", "init",
           "library_version", "settings", "unique_id"]

# Tracebacks and pickles name them as programs do: tutti.RemoteError.
for _public in (Communicator, CudaError, Error, Group, InternalError, InvalidArgumentError, InvalidUsageError,
                OperatingSystemError, RemoteError, Result, Stream, TimeoutError, Work):
    _public.__module__ = __name__
