#include "bench/backends/mpi_launch.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <thread>

#include "bench/backends/library_tutti.h"
#include "bench/driver/launch.h"
#include "bench/driver/options.h"
#include "bench/driver/sweep.h"
#include "bench/worker/worker.h"
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
  throw std::runtime_error(fmt::format("started by mpirun of {}, but its module cannot be loaded: {}", name, reason));
}

void Check(tuttiResult_t result, const char* call) { CheckTutti(result, nullptr, call); }

constexpr std::size_t kControlName = 108;  // longest name of an abstract socket

// The name by which the ranks find the bench; empty: the bench has nothing to run.
std::string BroadcastName(const tuttiMpiModule_t& mpi, const std::string& name) {
  std::array<char, kControlName> text{};
  name.copy(text.data(), text.size() - 1);
  Check(mpi.broadcast(text.data(), text.size(), 0), "MPI_Bcast");
  return text.data();
}

void ServeOverMpi(const tuttiMpiModule_t& mpi, const std::string& control, const CallSettings& settings) {
  if (settings.pin) PinToCore(mpi.rank());
  ControlSocket socket = ControlSocket::Connect(control);
  Serve(socket, {mpi.rank(), mpi.ranks()}, settings,
        [&](const Place& place, const CallSettings& call, const Exchange& exchange) {
          exchange(place.rank, place.ranks, {});
          tuttiComm_t comm = nullptr;
          Check(mpi.commInit(&comm, nullptr), "tuttiCommInitMPI");
          return WrapCommunicator(comm, call);
        });
}

int RunAsRankZero(const tuttiMpiModule_t& mpi, const Options& options) {
  Listener listener;
  BroadcastName(mpi, listener.name());
  std::exception_ptr failure;
  std::thread rank([&] {
    try {
      ServeOverMpi(mpi, listener.name(), options.call);
    } catch (...) {
      failure = std::current_exception();
    }
  });
  int status = EXIT_FAILURE;
  {
    std::vector<std::unique_ptr<Team>> teams;
    try {
      teams.push_back(std::make_unique<Team>(kTutti, mpi.ranks(), listener, options.plan.timeout));
      status = RunSweep(options, std::move(teams));
    } catch (const std::exception& error) {
      fmt::print(stderr, "tutti-bench: {}\n", error.what());
    }
  }  // ends the session with the ranks, including this process's
  rank.join();
  if (failure) std::rethrow_exception(failure);
  return status;
}

}  // namespace

int RunUnderLauncher(int argc, char** argv) {
  const tuttiMpiModule_t& mpi = LoadModule();
  Check(mpi.init(), "MPI_Init");
  int status = EXIT_SUCCESS;
  // Every rank parses the same command line; only rank 0 reports errors in it.
  const bool is_bench = mpi.rank() == 0;
  if (!is_bench) {
    const std::string control = BroadcastName(mpi, {});
    if (!control.empty()) {
      const std::optional<Options> options = ParseOptions(argc, argv, mpi.ranks(), &status);
      if (options) ServeOverMpi(mpi, control, options->call);
    }
  } else {
    const std::optional<Options> options = ParseOptions(argc, argv, mpi.ranks(), &status);
    const bool sweeps = options && CollectiveNamed(options->name);
    if (sweeps) {
      status = RunAsRankZero(mpi, *options);
    } else {
      BroadcastName(mpi, {});
      if (options) {
        fmt::print(stderr, "tutti-bench: \"{}\" starts its own ranks: run it without mpirun\n", options->name);
        status = EXIT_FAILURE;
      }
    }
  }
  Check(mpi.finalize(), "MPI_Finalize");
  return status;
}

}  // namespace tutti::bench
