#include <cstdlib>
#include <string_view>

#include "bench/backends/job.h"
#include "bench/backends/library_tutti.h"
#include "bench/worker/worker.h"

namespace tutti::bench {
namespace {

class EnvironmentJob final : public Job {
 public:
  EnvironmentJob() {
    Check(tuttiCommInitEnv(&comm_, nullptr), "tuttiCommInitEnv");
    Check(tuttiCommUserRank(comm_, &rank_), "tuttiCommUserRank");
    Check(tuttiCommCount(comm_, &ranks_), "tuttiCommCount");
  }
  ~EnvironmentJob() override { tuttiCommDestroy(comm_); }
  EnvironmentJob(const EnvironmentJob&) = delete;
  EnvironmentJob& operator=(const EnvironmentJob&) = delete;

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  void Broadcast(void* data, std::size_t bytes) override {
    Check(tuttiBroadcast(data, data, bytes, tuttiUint8, 0, comm_, nullptr), "tuttiBroadcast");
  }
  // One of its own: what is measured does not depend on how the job met.
  tuttiComm_t MakeCommunicator() override {
    tuttiUniqueId id{};
    if (rank_ == 0) Check(tuttiGetUniqueId(&id), "tuttiGetUniqueId");
    Broadcast(&id, sizeof id);
    tuttiComm_t comm = nullptr;
    CheckTutti(tuttiCommInitRank(&comm, ranks_, id, rank_), nullptr, "tuttiCommInitRank");
    return comm;
  }

 private:
  void Check(tuttiResult_t result, const char* call) const { CheckTutti(result, comm_, call); }

  tuttiComm_t comm_ = nullptr;
  int rank_ = 0;
  int ranks_ = 1;
};

bool Has(const char* variable) { return std::getenv(variable) != nullptr; }
std::string_view ValueOf(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr ? value : "";
}

// srun sets the number of tasks of its step. SLURM_NTASKS will not do: a batch script has it, and SLURM_PROCID, without
// being a rank. An interactive shell is the only task of its step.
bool StartedBySrun() {
  return Has("SLURM_PROCID") && Has("SLURM_STEP_NUM_TASKS") && ValueOf("SLURM_STEP_NUM_TASKS") != "1";
}

// Otherwise an mpirun started this process, and Slurm's variables are those of the mpirun.
bool PmiIsSruns() {
  return StartedBySrun() && ValueOf("PMI_RANK") == ValueOf("SLURM_PROCID") &&
         ValueOf("PMI_SIZE") == ValueOf("SLURM_STEP_NUM_TASKS");
}

}  // namespace

std::unique_ptr<Job> JoinEnvironment() { return std::make_unique<EnvironmentJob>(); }

std::unique_ptr<Job> JobOfEnvironment() {
  if (Has("OMPI_COMM_WORLD_RANK") || Has("PMI_RANK")) {
    try {
      return JoinMpi();
    } catch (const MpiMissing&) {
      if (!PmiIsSruns()) throw;
    }
  }
  const bool by_rank = Has("RANK") && Has("WORLD_SIZE");
  return by_rank || StartedBySrun() ? JoinEnvironment() : nullptr;
}

}  // namespace tutti::bench
