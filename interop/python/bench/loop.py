"""One rank of calls.py: times an all-reduce of float64 in a bare loop.

    loop.py tutti|tutti-new|mpi4py BYTES CALLS     prints ns a call, on rank 0

tutti-new: the call allocates its output.
"""

import sys
import time

import numpy


def main():
    package, count, calls = sys.argv[1], int(sys.argv[2]) // 8, int(sys.argv[3])
    mine, out = numpy.zeros(count), numpy.zeros(count)
    if package == "mpi4py":
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        all_reduce, barrier, rank = comm.Allreduce, comm.Barrier, comm.Get_rank()
    else:
        import tutti

        comm = tutti.init()
        all_reduce, barrier, rank = comm.all_reduce, comm.barrier, comm.rank
    for _ in range(calls // 10):
        all_reduce(mine, out)
    barrier()
    start = time.perf_counter_ns()
    if package == "tutti-new":
        for _ in range(calls):
            all_reduce(mine)
    else:
        for _ in range(calls):
            all_reduce(mine, out)
    took = time.perf_counter_ns() - start
    barrier()
    if rank == 0:
        print(f"{took / calls:.1f}")


main()
