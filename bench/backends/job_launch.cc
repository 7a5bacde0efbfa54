#include "bench/backends/job_launch.h"

#include <fmt/format.h>
#include <signal.h>

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
// From the signal to the end: the team's last words, and time to print them.
constexpr Milliseconds kEndsAfter = kLastWords + Milliseconds(500);

// A launcher sends SIGTERM to the other ranks as soon as one has ended. With this, the process ends late enough to say
// which rank that was, and why. It takes that other threads block SIGTERM, as libtutti's do; if an MPI has one that does
// not, the process ends at once.
void EndLate() {
  sigset_t terminate;
  ::sigemptyset(&terminate);
  ::sigaddset(&terminate, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &terminate, nullptr);
  std::thread([terminate] {
    int signal = 0;
    ::sigwait(&terminate, &signal);
    std::this_thread::sleep_for(kEndsAfter);
    ::pthread_sigmask(SIG_UNBLOCK, &terminate, nullptr);
    ::raise(signal);
  }).detach();
}

// The name by which the ranks find the bench; empty: the bench has nothing to run.
std::string BroadcastName(Job& job, const std::string& name) {
  std::array<char, kControlName> text{};
  if (name.size() >= text.size()) throw std::runtime_error("the name of the bench's control socket is too long");
  name.copy(text.data(), name.size());
  job.Broadcast(text.data(), text.size());
  return text.data();
}

EndOfService ServeInJob(Job& job, const std::string& control, const CallSettings& settings) {
  if (settings.pin) PinToCore(job.rank());
  ControlSocket socket = ControlSocket::Connect(control);
  return Serve(socket, {job.rank(), job.ranks()}, settings,
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
  EndLate();
  int status = EXIT_SUCCESS;
  // Every rank parses the same command line; only rank 0 reports errors in it.
  const bool is_bench = job.rank() == 0;
  if (!is_bench) {
    const std::string control = BroadcastName(job, {});
    if (control.empty()) return EXIT_SUCCESS;
    const std::optional<Options> options = ParseOptions(argc, argv, job.ranks(), &status);
    if (!options) return status;
    const EndOfService end = ServeInJob(job, control, options->call);
    if (end.quit && end.error.empty()) return EXIT_SUCCESS;
    throw std::runtime_error(
        fmt::format("rank {}: {}", job.rank(), end.error.empty() ? "the tutti-bench of rank 0 has ended" : end.error));
  }
  const std::optional<Options> options = ParseOptions(argc, argv, job.ranks(), &status);
  if (options && CollectiveNamed(options->name)) return RunAsRankZero(job, *options);
  BroadcastName(job, {});
  if (!options) return status;
  fmt::print(stderr, "tutti-bench: \"{}\" starts its own ranks: run it without a launcher\n", options->name);
  return EXIT_FAILURE;
}

}  // namespace tutti::bench
