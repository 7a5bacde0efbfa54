"""What the programs of this folder share: they are plain JAX programs, of which each process gets its number and the
coordinator's address by its environment."""

import os

import jax

process, processes = int(os.environ["JAX_TEST_PROCESS"]), int(os.environ["JAX_TEST_PROCESSES"])
jax.distributed.initialize(os.environ["JAX_TEST_COORDINATOR"], processes, process, shutdown_timeout_seconds=30)

import numpy as np  # noqa: E402
from jax.sharding import Mesh, NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402


def mesh_of(devices, *axes):
    return Mesh(np.asarray(devices), axes)


def sharded(array, mesh, *spec):
    """The global array of which each process puts its parts on its devices."""
    return jax.make_array_from_callback(array.shape, NamedSharding(mesh, P(*spec)), lambda index: array[index])


def mapped(function, mesh, spec, out=None):
    return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=spec if out is None else out,
                                 check_vma=False))


def check(what, result, expected):
    """Compares this process's parts of a global array, bit for bit."""
    for shard in result.addressable_shards:
        got = np.asarray(shard.data)
        assert got.dtype == expected.dtype and np.array_equal(got, expected[shard.index]), (what, got, expected[shard.index])
