"""Each of JAX's collectives, of each type that jaxlib hands to its MPI, over all devices."""

import jax
import jax.numpy as jnp
import numpy as np
from job import P, check, mapped, mesh_of, process, sharded

jax.config.update("jax_enable_x64", True)
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float32", "float64")
COMPLEX = ("complex64", "complex128")

mesh = mesh_of(jax.devices(), "r")
n = len(jax.devices())
COUNT = 6 * n  # of each device


def numbers(dtype):
    """Small whole numbers: every sum of them is exact."""
    base = np.arange(n * COUNT) % 7
    return (base + 1j * (base % 3)).astype(dtype) if dtype in COMPLEX else base.astype(dtype)


for dtype in INTEGERS + FLOATS + COMPLEX:
    data = numbers(dtype)
    rows = data.reshape(n, COUNT)
    array = sharded(data, mesh, "r")
    total = rows.sum(0, dtype=rows.dtype)
    check(f"psum {dtype}", mapped(lambda v: jax.lax.psum(v, "r"), mesh, P("r"))(array), np.tile(total, n))
    check(f"psum_scatter {dtype}", mapped(lambda v: jax.lax.psum_scatter(v, "r", tiled=True), mesh, P("r"))(array), total)
    check(f"all_gather {dtype}", mapped(lambda v: jax.lax.all_gather(v, "r", tiled=True), mesh, P("r"))(array),
          np.tile(data, n))
    check(f"all_to_all {dtype}",
          mapped(lambda v: jax.lax.all_to_all(v.reshape(n, -1), "r", 0, 0, tiled=True).reshape(-1), mesh, P("r"))(array),
          rows.reshape(n, n, -1).transpose(1, 0, 2).reshape(-1))
    check(f"ppermute {dtype}",
          mapped(lambda v: jax.lax.ppermute(v, "r", [(i, (i + 1) % n) for i in range(n)]), mesh, P("r"))(array),
          np.roll(rows, 1, 0).reshape(-1))
    if n > 1:  # one sender, and zeros for those that receive nothing
        check(f"ppermute of one {dtype}", mapped(lambda v: jax.lax.ppermute(v, "r", [(0, n - 1)]), mesh, P("r"))(array),
              np.concatenate([np.zeros((n - 1) * COUNT, rows.dtype), rows[0]]))
    if dtype not in COMPLEX:
        check(f"pmax {dtype}", mapped(lambda v: jax.lax.pmax(v, "r"), mesh, P("r"))(array), np.tile(rows.max(0), n))
        check(f"pmin {dtype}", mapped(lambda v: jax.lax.pmin(v, "r"), mesh, P("r"))(array), np.tile(rows.min(0), n))
        check(f"product {dtype}", jax.jit(lambda a: (1 + a.reshape(n, -1) % 2).prod(0, dtype=a.dtype))(array),
              (1 + rows % 2).prod(0, dtype=rows.dtype))

# XLA adds bfloat16 in float32, and passes it on as it is.
half = sharded(numbers("float32").astype(jnp.bfloat16), mesh, "r")
check("psum bfloat16", mapped(lambda v: jax.lax.psum(v, "r"), mesh, P("r"))(half),
      np.tile(numbers("float32").reshape(n, -1).sum(0), n).astype(jnp.bfloat16))
truths = sharded(numbers("int32") % 2 == 0, mesh, "r")
check("all", jax.jit(lambda a: a.reshape(n, -1).all(0))(truths), (numbers("int32") % 2 == 0).reshape(n, -1).all(0))
check("any", jax.jit(lambda a: a.reshape(n, -1).any(0))(truths), (numbers("int32") % 2 == 0).reshape(n, -1).any(0))
print(f"process {process}: right")
