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

}  // namespace

std::unique_ptr<Job> JoinEnvironment() { return std::make_unique<EnvironmentJob>(); }

std::unique_ptr<Job> JobOfEnvironment() {
  if (Has("OMPI_COMM_WORLD_RANK") || Has("PMI_RANK")) return JoinMpi();
  const bool by_rank = Has("RANK") && Has("WORLD_SIZE");
  const char* const tasks = std::getenv("SLURM_NTASKS");
  const bool by_slurm = Has("SLURM_PROCID") && tasks != nullptr && std::string_view(tasks) != "1";
  return by_rank || by_slurm ? JoinEnvironment() : nullptr;
}

}  // namespace tutti::bench
