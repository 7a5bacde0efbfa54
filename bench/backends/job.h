// The job that this process is a rank of, if a launcher started it: mpirun, torchrun, srun, or a script that sets the
// same variables. The ranks use it to find each other, and make the communicator that is measured.
//
// Thread-safety: one thread. Functions throw std::runtime_error.
#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>

#include "tutti/tutti.h"

namespace tutti::bench {

class Job {
 public:
  virtual ~Job() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // Collective. Copies rank 0's bytes to all ranks.
  virtual void Broadcast(void* data, std::size_t bytes) = 0;
  // Collective. A communicator of all ranks; the caller destroys it.
  virtual tuttiComm_t MakeCommunicator() = 0;
};

// MPI's variables come before others': mpirun may run inside srun. srun sets them too (--mpi=pmi2): then MPI is used if
// it can be loaded, else Slurm's own variables. Null: no launcher started this process. A batch script and an
// interactive shell of Slurm are no ranks, although they may have a rank's variables.
std::unique_ptr<Job> JobOfEnvironment();

class MpiMissing : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// mpirun's. The MPI is loaded at run time (interop/mpi) and used only for startup. Throws MpiMissing if it cannot be
// loaded.
std::unique_ptr<Job> JoinMpi();
// The job that RANK and WORLD_SIZE, or SLURM_PROCID and SLURM_NTASKS, describe (tuttiCommInitEnv).
std::unique_ptr<Job> JoinEnvironment();

}  // namespace tutti::bench
