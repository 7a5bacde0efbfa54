"""JAX's collectives on CPUs over Tutti, in unchanged programs.

    import tutti.jax
    tutti.jax.register()       # before the first import of jax
    import jax

Or, without a change: MPITRAMPOLINE_LIB=$(python -m tutti.jax) python program.py

jaxlib loads an MPI for its CPU collectives by MPItrampoline; libtutti_jax.so is one. JAX calls initialize(), an entry
point of the group jax_plugins, before it makes its devices. docs/jax.md in Tutti's source tree describes it.
"""

from __future__ import annotations

import os
import pathlib
import sys

__all__ = ["LIBRARY", "initialize", "register"]

LIBRARY = str(pathlib.Path(__file__).resolve().parent.parent / "libtutti_jax.so")
_LIBRARY_VARIABLE = "MPITRAMPOLINE_LIB"  # of MPItrampoline
_COLLECTIVES_VARIABLE = "JAX_CPU_COLLECTIVES_IMPLEMENTATION"  # of JAX


def register() -> None:
    """Makes Tutti the implementation of JAX's CPU collectives in this process.

    Raises RuntimeError if jaxlib is loaded already: it chooses its MPI while it is loaded.
    """
    if "jaxlib" in sys.modules and os.environ.get(_LIBRARY_VARIABLE) != LIBRARY:
        raise RuntimeError("tutti.jax.register() comes after the first import of jax: call it before, because jaxlib chooses "
                           "its MPI when it is loaded")
    if not os.path.exists(LIBRARY):
        raise RuntimeError(f"this package was built without JAX's interface: there is no {LIBRARY} (docs/jax.md)")
    os.environ[_LIBRARY_VARIABLE] = LIBRARY


def initialize() -> None:
    """Called by JAX before it makes its devices. Has no effect where another MPI, or Gloo, is chosen."""
    if os.environ.get(_LIBRARY_VARIABLE) != LIBRARY or os.environ.get(_COLLECTIVES_VARIABLE, "mpi") != "mpi":
        return
    from ._meeting import take_part
    take_part(LIBRARY)
