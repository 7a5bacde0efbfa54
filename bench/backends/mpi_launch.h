// tutti-bench under mpirun: rank 0 is the bench and, in a second thread, a rank; the others are ranks. The environment
// identifies the MPI that started them. It is loaded at run time (interop/mpi) and used only for startup.
#pragma once

namespace tutti::bench {

// Returns the exit status. Throws std::runtime_error.
int RunUnderLauncher(int argc, char** argv);

}  // namespace tutti::bench
