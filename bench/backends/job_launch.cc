#include "bench/backends/job_launch.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "bench/backends/library_tutti.h"
#include "bench/driver/options.h"
#include "bench/driver/sweep.h"
#include "bench/worker/worker.h"

namespace tutti::bench {
namespace {

constexpr std::size_t kControlName = 512;

// The name by which the ranks find the bench; empty: the bench has nothing to run.
std::string BroadcastName(Job& job, const std::string& name) {
  std::array<char, kControlName> text{};
  if (name.size() >= text.size()) throw std::runtime_error("the name of the bench's control socket is too long");
  name.copy(text.data(), name.size());
  job.Broadcast(text.data(), text.size());
  return text.data();
}

void ServeInJob(Job& job, const std::string& control, const CallSettings& settings) {
  if (settings.pin) PinToCore(job.rank());
  ControlSocket socket = ControlSocket::Connect(control);
  Serve(socket, {job.rank(), job.ranks()}, settings,
        [&](const Place& place, const CallSettings& call, const Exchange& exchange) {
          exchange(place.rank, place.ranks, {});
          return WrapCommunicator(job.MakeCommunicator(), call);
        });
}

int RunAsRankZero(Job& job, const Options& options) {
  Listener listener(Listener::Place::network);
  BroadcastName(job, listener.name());
  std::exception_ptr failure;
  std::thread rank([&] {
    try {
      ServeInJob(job, listener.name(), options.call);
    } catch (...) {
      failure = std::current_exception();
    }
  });
  int status = EXIT_FAILURE;
  {
    std::vector<std::unique_ptr<Team>> teams;
    try {
      teams.push_back(std::make_unique<Team>(kTutti, job.ranks(), listener, options.plan.timeout));
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

int RunInJob(Job& job, int argc, char** argv) {
  int status = EXIT_SUCCESS;
  // Every rank parses the same command line; only rank 0 reports errors in it.
  const bool is_bench = job.rank() == 0;
  if (!is_bench) {
    const std::string control = BroadcastName(job, {});
    if (control.empty()) return EXIT_SUCCESS;
    const std::optional<Options> options = ParseOptions(argc, argv, job.ranks(), &status);
    if (options) ServeInJob(job, control, options->call);
    return status;
  }
  const std::optional<Options> options = ParseOptions(argc, argv, job.ranks(), &status);
  if (options && CollectiveNamed(options->name)) return RunAsRankZero(job, *options);
  BroadcastName(job, {});
  if (!options) return status;
  fmt::print(stderr, "tutti-bench: \"{}\" starts its own ranks: run it without a launcher\n", options->name);
  return EXIT_FAILURE;
}

}  // namespace tutti::bench
