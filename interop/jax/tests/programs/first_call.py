"""One sum, or what JAX raises instead. JAX_TEST_TYPE is the type of the numbers, by default float32."""

import os

import jax
import numpy as np
from job import P, mapped, mesh_of, process, sharded

numbers = np.ones(len(jax.devices()), os.environ.get("JAX_TEST_TYPE", "float32"))
mesh = mesh_of(jax.devices(), "r")
try:
    result = mapped(lambda v: jax.lax.psum(v, "r"), mesh, P("r"))(sharded(numbers, mesh, "r"))
    print(f"process {process}: the sum is {result.addressable_shards[0].data[0]}", flush=True)
except (jax.errors.JaxRuntimeError, ValueError) as error:  # JAX chooses one of them
    print(f"process {process}: {error}", flush=True)
    jax.distributed.shutdown()  # waits for the other processes: JAX aborts those that lose the coordinator, process 0
    os._exit(0)
