# What the lines of docs/python.md and docs/coming_from.md take for granted: a communicator and some arrays.
import os

import numpy
import tutti

comm = tutti.init()
stream = tutti.Stream()
x, mine, theirs = numpy.ones(4), numpy.full(4, float(comm.rank)), numpy.zeros(4)
left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
obj = {"rank": comm.rank}
if str(comm.rank) == os.environ.get("DYING_RANK"):
    os._exit(0)
# THE BLOCK
stream.close()
assert "DYING_RANK" not in os.environ or comm.size == 3  # one of four is gone
assert not theirs.any() or (theirs == left).all()
comm.close()
