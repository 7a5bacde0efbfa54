"""Programs on meshes that share no device run at the same time, from several threads; and many calls are on their way before
the first result is asked for."""

import threading

import jax
import numpy as np
from job import P, check, mapped, mesh_of, process, sharded

ROUNDS = 30
devices = jax.devices()
of = [[device for device in devices if device.process_index == p] for p in range(jax.process_count())]
columns = list(zip(*of))  # the k-th devices of all processes
failures = []


def work(chosen):
    try:
        mesh = mesh_of(chosen, "r")
        data = np.arange(len(chosen) * 1000, dtype=np.float32) % 100
        array = sharded(data, mesh, "r")
        total = data.reshape(len(chosen), -1).sum(0)
        add = mapped(lambda v: jax.lax.psum(v, "r"), mesh, P("r"))
        gather = mapped(lambda v: jax.lax.all_gather(v, "r", tiled=True), mesh, P("r"))
        turn = mapped(lambda v: jax.lax.ppermute(v, "r", [(i, (i + 1) % len(chosen)) for i in range(len(chosen))]), mesh,
                      P("r"))
        results = [(add(array), gather(array), turn(array)) for _ in range(ROUNDS)]
        for added, gathered, turned in results:
            check("psum", added, np.tile(total, len(chosen)))
            check("all_gather", gathered, np.tile(data, len(chosen)))
            check("ppermute", turned, np.roll(data.reshape(len(chosen), -1), 1, 0).reshape(-1))
    except BaseException as error:
        failures.append(error)


threads = [threading.Thread(target=work, args=(list(column),)) for column in columns]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if failures:
    raise failures[0]
work(devices)
if failures:
    raise failures[0]
print(f"process {process}: right")
