#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "bench/backends/job.h"
#include "bench/backends/library_tutti.h"
#include "bench/driver/launch.h"
#include "interop/mpi/tutti_mpi_module.h"

namespace tutti::bench {
namespace {

const tuttiMpiModule_t& LoadModule() {
  const std::string name = std::getenv("OMPI_COMM_WORLD_RANK") != nullptr ? "openmpi" : "mpich";
  const std::string file = fmt::format("libtutti_mpi_{}.so", name);
  // Next to the library in a build tree or an installation, then wherever the loader looks.
  const std::array places = {OwnDirectory() + "/../interop/mpi/" + file, OwnDirectory() + "/../lib/" + file, file};
  std::string reason;
  for (const std::string& place : places) {
    // RTLD_GLOBAL: Open MPI's own plugins look up its symbols.
    void* const handle = ::dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (handle == nullptr) {
      reason = ::dlerror();
      continue;
    }
    const auto get = reinterpret_cast<decltype(&tuttiMpiModule)>(::dlsym(handle, TUTTI_MPI_MODULE_SYMBOL));
    if (get != nullptr && get()->version == TUTTI_MPI_MODULE_VERSION) return *get();
    reason = fmt::format("{} is from another version of tutti-bench", place);
  }
  throw MpiMissing(fmt::format("started by mpirun of {}, but its module cannot be loaded: {}", name, reason));
}

class MpiJob final : public Job {
 public:
  MpiJob() : mpi_(LoadModule()) { CheckTutti(mpi_.init(), nullptr, "MPI_Init"); }
  ~MpiJob() override { mpi_.finalize(); }
  MpiJob(const MpiJob&) = delete;
  MpiJob& operator=(const MpiJob&) = delete;

  int rank() const override { return mpi_.rank(); }
  int ranks() const override { return mpi_.ranks(); }
  void Broadcast(void* data, std::size_t bytes) override {
    CheckTutti(mpi_.broadcast(data, bytes, 0), nullptr, "MPI_Bcast");
  }
  tuttiComm_t MakeCommunicator() override {
    tuttiComm_t comm = nullptr;
    CheckTutti(mpi_.commInit(&comm, nullptr), nullptr, "tuttiCommInitMPI");
    return comm;
  }

 private:
  const tuttiMpiModule_t& mpi_;
};

}  // namespace

std::unique_ptr<Job> JoinMpi() { return std::make_unique<MpiJob>(); }

}  // namespace tutti::bench
