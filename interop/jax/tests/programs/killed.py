"""The last process dies while the others wait for it."""

import os
import signal

import jax
import numpy as np
from job import P, mapped, mesh_of, process, processes, sharded

mesh = mesh_of(jax.devices(), "r")
add = mapped(lambda v: jax.lax.psum(v, "r"), mesh, P("r"))
array = sharded(np.ones(len(jax.devices()) * 16, np.float32), mesh, "r")
add(array).block_until_ready()
print(f"process {process}: pid {os.getpid()}", flush=True)
if process == processes - 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    add(array).block_until_ready()
    print("no error", flush=True)
except (jax.errors.JaxRuntimeError, ValueError) as error:  # JAX chooses one of them
    print(f"process {process}: {error}", flush=True)
os._exit(0)  # JAX's end would wait for the dead process
