"""Several communicators: of all devices, of rows and columns of a mesh, and of part of the processes. Many begin with the
same device, and processes make them in an order that is not that of other processes."""

import jax
import jax.numpy as jnp
import numpy as np
from job import P, check, mapped, mesh_of, process, processes, sharded

devices = jax.devices()
n = len(devices)


def total_over(chosen):
    """The sum over a mesh of these devices, on the processes that have some of them."""
    if all(device.process_index != process for device in chosen):
        return
    mesh = mesh_of(chosen, "r")
    data = np.arange(4 * len(chosen), dtype=np.int32)
    check(f"psum over {chosen}", mapped(lambda v: jax.lax.psum(v, "r"), mesh, P("r"))(sharded(data, mesh, "r")),
          np.tile(data.reshape(len(chosen), -1).sum(0, dtype=data.dtype), len(chosen)))


# Pairs with the first device, in both orders, before and after all: the process of the last device makes its first
# communicator with it while the first device is elsewhere.
total_over([devices[0], devices[-1]])
for other in devices[1:]:
    total_over([devices[0], other])
    total_over([other, devices[0]])
total_over(devices)
total_over(devices[::-1])
for step in range(2, n):
    total_over(devices[::step])
    total_over(devices[1::step])

if n % 2 == 0:
    mesh = mesh_of(np.array(devices).reshape(2, n // 2), "x", "y")
    data = np.arange(n * 8, dtype=np.float32).reshape(2 * 2, n // 2 * 4)
    array = sharded(data, mesh, "x", "y")
    blocks = data.reshape(2, 2, n // 2, 4)
    for axis, at in (("x", 0), ("y", 2)):
        total = np.broadcast_to(blocks.sum(at, keepdims=True), blocks.shape).reshape(data.shape)
        check(f"psum over {axis}", mapped(lambda v, axis=axis: jax.lax.psum(v, axis), mesh, P("x", "y"))(array), total)
    total = np.broadcast_to(blocks.sum((0, 2), keepdims=True), blocks.shape).reshape(data.shape)
    check("psum over both", mapped(lambda v: jax.lax.psum(v, ("x", "y")), mesh, P("x", "y"))(array), total)
    # The partitioner chooses the collectives.
    weights = sharded(np.ones((n // 2 * 4, 4), np.float32), mesh, "y", None)
    product = jax.jit(lambda a, w: a @ w, out_shardings=jax.sharding.NamedSharding(mesh, P("x", None)))(array, weights)
    check("matrix product", product, data @ np.ones((n // 2 * 4, 4), np.float32))
    check("other layout", jax.jit(lambda a: a, out_shardings=jax.sharding.NamedSharding(mesh, P("y", "x")))(
        sharded(np.arange(4 * n * n, dtype=np.float32).reshape(2 * n, 2 * n), mesh, "x", "y")),
        np.arange(4 * n * n, dtype=np.float32).reshape(2 * n, 2 * n))
print(f"process {process}: right on {processes} processes and {n} devices")
