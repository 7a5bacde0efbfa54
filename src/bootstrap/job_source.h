// Tickets for jobs that meet at a known address, served by rank 0: TUTTI_COMM_ID=host:port, and the variables that
// torchrun and similar launchers set. Every rank makes the same ticket by itself; ranks need not pass anything on.
//
// The secret comes from TUTTI_SECRET (job_secret.h). Without it, on loopback only, it comes from facts of the job,
// which others may guess. Thread-safety: pure but for name resolution and a look at this process's ancestors.
#pragma once

#include "base/settings/settings.h"
#include "src/bootstrap/unique_id.h"

namespace tutti::bootstrap {

// REQUIRES: settings.comm_id is not empty. Throws tuttiInvalidUsage naming TUTTI_COMM_ID and its value, also when the
// address is not loopback and there is no secret. `environment` gives facts that distinguish jobs on one address
// (kJobFacts in the .cc).
JoinTicket TicketFromCommId(const Settings& settings, const Lookup& environment);

struct EnvironmentTicket {
  JoinTicket ticket;
  int rank = 0;
  int nranks = 1;
};
// This rank's identity, from the launcher's variables: RANK and WORLD_SIZE (torchrun), SLURM_PROCID and SLURM_NTASKS,
// or those of Open MPI or MPICH. Where the ranks meet: MASTER_ADDR and MASTER_PORT, else TUTTI_COMM_ID, else (Slurm) on
// the job's first host at a port derived from the job's number, else (mpirun, if it says that all ranks are on this
// host) on loopback at a port derived from the job's name. Under torchrun with TORCHELASTIC_USE_AGENT_STORE=True
// torchrun's own store uses MASTER_PORT, so the ranks meet at MASTER_PORT + 1. A process that nothing tells of other
// ranks is a job of one rank; so is one in a batch script or shell of Slurm that srun did not start. Throws
// tuttiInvalidUsage naming the variable and its value, or TUTTI_SECRET where that must be set.
EnvironmentTicket TicketFromEnvironment(const Settings& settings, const Lookup& environment);

// "node[07-09,12]-ib,other3" is "node07-ib".
std::string FirstSlurmHost(std::string_view nodes);

// The process's environment.
Lookup ProcessEnvironment();

}  // namespace tutti::bootstrap
