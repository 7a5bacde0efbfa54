// tutti-bench under mpirun: rank 0 is the bench and, in a second thread, a rank; the others are ranks. The MPI that
// started them is found by its environment, loaded at run time (interop/mpi), and carries only what is needed to start.
#pragma once

namespace tutti::bench {

// Returns the exit status. Throws std::runtime_error.
int RunUnderLauncher(int argc, char** argv);

}  // namespace tutti::bench
