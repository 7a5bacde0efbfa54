// Races every pair of calls on one communicator, in each of its states. Both calls must return, with success or with a
// code and a message, and nothing may crash. A trial depends only on the seed and its number, except for scheduling.
//
//   tutti_races --pairs 100000 --seed 1      all; exits with 0 if nothing hung, crashed or failed silently
//   tutti_races --seed 1 --only 78           one trial, a hundred times
//   tutti_races --pairs 100 --list           prints the trials
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <string>

#include "tests/races/calls.h"

// Present if the address sanitizer is. A worker exits by _exit, so it runs the leak check explicitly.
extern "C" int __lsan_do_recoverable_leak_check(void) __attribute__((weak));
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_options() {
  return "report_thread_leaks=0:die_after_fork=0";
}

namespace tutti::races {
namespace {

using Clock = std::chrono::steady_clock;

// The trials of one process share one environment.
constexpr std::uint64_t kBatch = 50;
constexpr std::chrono::seconds kHung{60};

struct Plan {
  State state;
  std::array<std::size_t, 2> calls;
  std::array<int, 2> sides;
  std::array<std::uint32_t, 2> delays;  // polls before the call
  std::uint32_t rescue_us;
};

Plan PlanOf(std::uint64_t seed, std::uint64_t trial) {
  Dice dice(seed * 0x2545f4914f6cdd1d + trial);
  dice.Next();
  Plan plan{};
  plan.state = static_cast<State>(dice.Below(kStates));
  for (auto& call : plan.calls) call = dice.Below(Calls().size());
  // Mostly on the same handle; sometimes one call is on the other rank's.
  const bool joined_two =
      plan.state != State::one && plan.state != State::joining && plan.state != State::joining_later;
  plan.sides = {0, joined_two && dice.Below(4) == 0 ? 1 : 0};
  // Each call sometimes starts later, by up to some hundred microseconds, while the other one runs.
  for (auto& delay : plan.delays) delay = static_cast<std::uint32_t>(dice.Below(3) == 0 ? dice.Below(100'000) : 0);
  plan.rescue_us = static_cast<std::uint32_t>(dice.Below(4) == 0 ? 0 : dice.Below(4000));
  return plan;
}

std::string Describe(const Plan& plan) {
  return fmt::format("{}: {} on rank {} beside {} on rank {}", NameOf(plan.state), Calls()[plan.calls[0]].name,
                     plan.sides[0], Calls()[plan.calls[1]].name, plan.sides[1]);
}

void SetEnvironment(std::uint64_t trial) {
  setenv("TUTTI_SOCKET_IFNAME", "=lo", 1);
  switch (trial / kBatch % 4) {
    case 1: setenv("TUTTI_VIRTUAL_HOSTS", "2", 1); break;
    case 2: setenv("TUTTI_THREADS", "2", 1); break;
    case 3: setenv("TUTTI_WAIT", "sleep", 1); break;
    default: break;
  }
}

// The worker's reports to its watchdog.
struct Progress {
  std::atomic<std::uint64_t> trial;
  std::atomic<std::uint64_t> finished;  // trials
  std::atomic<std::uint64_t> answers[tuttiNumResults];
};

// False: a call failed without a message.
bool Race(const Plan& plan, Progress& progress) {
  std::atomic<int> ready{0};
  std::atomic<bool> go{false};
  std::atomic<int> returned{0};
  std::atomic<bool> well{true};
  {
    World world(plan.state);
    std::array<std::thread, 2> threads;
    for (std::size_t i = 0; i < 2; ++i) {
      threads[i] = std::thread([&, i] {
        const auto& call = Calls()[plan.calls[i]];
        auto& side = world.sides[static_cast<std::size_t>(plan.sides[i])];
        ready.fetch_add(1);
        while (!go.load(std::memory_order_acquire)) {
        }
        for (std::uint32_t poll = 0; poll < plan.delays[i]; ++poll)
          static_cast<void>(go.load(std::memory_order_relaxed));
        const auto result = call.run(world, side);
        const bool known = result >= tuttiSuccess && result < tuttiNumResults;
        const bool fails = result != tuttiSuccess && result != tuttiInProgress;
        const bool speaks = !fails || call.speaks_for_others || *tuttiGetLastError(nullptr) != '\0';
        if (known) progress.answers[result].fetch_add(1, std::memory_order_relaxed);
        if (!known || !speaks) {
          fmt::print(stderr, "{} returned {} without a word\n", call.name, static_cast<int>(result));
          well = false;
        }
        returned.fetch_add(1);
      });
    }
    while (ready.load() < 2) sched_yield();
    go.store(true, std::memory_order_release);
    const auto begun = Clock::now();
    while (returned.load() < 2 && Clock::now() - begun < std::chrono::microseconds(plan.rescue_us)) usleep(50);
    // Repeated, because a communicator that a call creates may only now begin to wait for the other rank.
    while (returned.load() < 2) {
      world.Rescue();
      usleep(200);
    }
    for (auto& thread : threads) thread.join();
  }
  return well;
}

[[noreturn]] void Work(std::uint64_t seed, std::uint64_t first, std::uint64_t end, int repeats, Progress& progress) {
  SetEnvironment(first);
  bool well = true;
  for (auto trial = first; trial < end; ++trial) {
    progress.trial.store(trial);
    for (int i = 0; i < repeats; ++i) well = Race(PlanOf(seed, trial), progress) && well;
    progress.finished.fetch_add(1);
    if (!well) _exit(1);
  }
  if (__lsan_do_recoverable_leak_check != nullptr && __lsan_do_recoverable_leak_check() != 0) _exit(2);
  _exit(0);
}

// Prints the stacks of the worker's threads, as well as this machine can.
void ShowStacks(pid_t worker) {
  const auto command = fmt::format(
      "gdb -p {0} -batch -ex 'thread apply all bt' 2>/dev/null | grep -v '^\\[' || "
      "for t in /proc/{0}/task/*; do echo $t $(cat $t/comm $t/wchan $t/syscall); done",
      worker);
  std::fflush(stdout);
  if (std::system(command.c_str()) != 0) std::puts("(no stacks)");
}

struct Outcome {
  bool hung = false, crashed = false;
  std::uint64_t next = 0;
};

// Runs trials until `end`, or until one fails.
Outcome Supervise(std::uint64_t seed, std::uint64_t first, std::uint64_t end, int repeats, Progress& progress) {
  progress.trial.store(first);
  const pid_t worker = fork();
  if (worker == 0) Work(seed, first, end, repeats, progress);
  auto seen = progress.finished.load();
  auto since = Clock::now();
  for (;;) {
    int status = 0;
    if (waitpid(worker, &status, WNOHANG) == worker) {
      const auto trial = progress.trial.load();
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {false, false, end};
      fmt::print("trial {}: {}\n  {}\n", trial, Describe(PlanOf(seed, trial)),
                 WIFSIGNALED(status) ? fmt::format("ended by signal {}", WTERMSIG(status))
                                     : fmt::format("exited with {}", WEXITSTATUS(status)));
      return {false, true, trial + 1};
    }
    usleep(2000);
    if (const auto now = progress.finished.load(); now != seen) {
      seen = now;
      since = Clock::now();
    }
    if (Clock::now() - since < kHung * repeats) continue;
    const auto trial = progress.trial.load();
    fmt::print("trial {}: {}\n  hung\n", trial, Describe(PlanOf(seed, trial)));
    ShowStacks(worker);
    kill(worker, SIGKILL);
    waitpid(worker, &status, 0);
    return {true, false, trial + 1};
  }
}

}  // namespace
}  // namespace tutti::races

int main(int argc, char** argv) {
  using namespace tutti::races;
  CLI::App app("Races pairs of calls against each other");
  std::uint64_t pairs = 1000, seed = 1, from = 0;
  std::int64_t only = -1;
  bool list = false;
  app.add_option("--pairs", pairs, "so many trials");
  app.add_option("--seed", seed, "trials follow from it");
  app.add_option("--from", from, "the first trial's number");
  app.add_option("--only", only, "this trial, a hundred times");
  app.add_flag("--list", list, "say what the trials are");
  CLI11_PARSE(app, argc, argv);

  auto first = only >= 0 ? static_cast<std::uint64_t>(only) : from;
  const auto end = only >= 0 ? first + 1 : from + pairs;
  if (list) {
    for (auto trial = first; trial < end; ++trial) fmt::print("{:6} {}\n", trial, Describe(PlanOf(seed, trial)));
    return 0;
  }
  void* const memory = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto& progress = *new (memory) Progress{};
  std::uint64_t hung = 0, crashed = 0;
  while (first < end) {
    const auto outcome =
        Supervise(seed, first, std::min(end, first / kBatch * kBatch + kBatch), only >= 0 ? 100 : 1, progress);
    hung += outcome.hung;
    crashed += outcome.crashed;
    first = outcome.next;
    std::fflush(stdout);
  }
  fmt::print("{} pairs: {} hung, {} crashed or without a word\nanswers:", progress.finished.load(), hung, crashed);
  for (int code = 0; code < tuttiNumResults; ++code) {
    fmt::print(" {} x {};", progress.answers[code].load(), tuttiGetErrorString(static_cast<tuttiResult_t>(code)));
  }
  fmt::print("\n");
  return hung + crashed == 0 ? 0 : 1;
}
