# What the lines about streams in docs/python.md take for granted.
import asyncio

import numpy
import tutti


def compute_something_else() -> None:
    """Anything."""


async def main() -> None:
    comm = tutti.init()
    x, gradients = numpy.ones(4), numpy.ones(4)
    # THE BLOCK
    assert (total == comm.size).all() and (gradients == comm.size).all()
    comm.close()


asyncio.run(main())
