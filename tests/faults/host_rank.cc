// One rank of the tests of failing hosts: reduces in a loop, checks every result, and reports what ended it.
//
//   tutti_host_rank SECONDS BYTES [OPTION...]
//     shrink=MS         after a failure goes on with the remaining ranks, for this long
//     pause=RANK:MS     this rank waits this long between a failure and going on
//     mix=1             one operation of another kind before each all-reduce
//     late=MS           the last rank reaches the first operation this late
//     slow=RANK:MS      this rank waits this long before every operation
//     abort=RANK:MS, revoke=RANK:MS
//                       this rank does so while operations run, this long after the communicator was made
//     count=RANK:MS, operator=RANK:MS, call=RANK:MS
//                       then this rank's next operation differs from the others'
//
// It prints on standard output, by its rank in the first communicator:
//
//   rank 3 joins
//   rank 3 did not join after 5012 ms: timeout: ...
//   rank 3 runs
//   rank 3 failed after 812 ms of waiting: remote error: ...
//   rank 3 goes on as rank 2 of 4 after 1034 ms: with ranks 0 1 3 4
//   rank 3 cannot go on after 5034 ms: remote error: ...
//   rank 3 has a wrong result: ...
//   rank 3 aborts
//   rank 3 is done: 812 operations
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "tests/faults/host_rank_mix.h"
#include "tutti/tutti.h"

namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

double MsSince(Clock::time_point then) {
  return std::chrono::duration<double, std::milli>(Clock::now() - then).count();
}

struct DestroyComm {
  void operator()(tuttiComm_t comm) const { tuttiCommDestroy(comm); }
};
using Comm = std::unique_ptr<std::remove_pointer_t<tuttiComm_t>, DestroyComm>;

struct Options {
  std::chrono::seconds seconds{};
  std::size_t bytes = 0;
  std::map<std::string, std::string> more;

  std::optional<Milliseconds> Time(const std::string& name) const {
    const auto found = more.find(name);
    return found == more.end() ? std::nullopt : std::optional(Milliseconds(std::stol(found->second)));
  }
  // The time of the deed of that name, if it is this rank's.
  std::optional<Milliseconds> Deed(const std::string& name, int rank) const {
    const auto found = more.find(name);
    if (found == more.end()) return std::nullopt;
    std::size_t colon = 0;
    if (std::stoi(found->second, &colon) != rank) return std::nullopt;
    return Milliseconds(std::stol(found->second.substr(colon + 1)));
  }
};

// Runs a callback in another thread after some time, unless the object is destroyed first.
class Later {
 public:
  template <typename Do>
  Later(Milliseconds after, Do what)
      : thread_([this, after, what](const std::stop_token& stop) {
          std::unique_lock lock(mutex_);
          if (!never_.wait_for(lock, stop, after, [] { return false; }) && !stop.stop_requested()) what();
        }) {}

 private:
  std::mutex mutex_;
  std::condition_variable_any never_;
  std::jthread thread_;
};

class HostRank {
 public:
  HostRank(Options options, int rank) : options_(std::move(options)), rank_(rank), data_(Count() + 1) {}

  // Returns the exit status.
  int Run() {
    Say("joins");
    auto began = Clock::now();
    tuttiComm_t made = nullptr;
    if (const auto result = tuttiCommInitEnv(&made, nullptr); result != tuttiSuccess) {
      Say(fmt::format("did not join after {:.0f} ms: {}", MsSince(began), Reason(result, nullptr)));
      return kFailed;
    }
    Comm comm(made);
    for (auto end = Clock::now() + options_.seconds;; ++generation_) {
      const auto status = generation_ == 0 ? ReduceWithDeeds(comm, end) : Reduce(comm.get(), end);
      if (status) return *status;
      const auto on = options_.Time("shrink");
      if (!on) return kFailed;
      if (const auto pause = options_.Deed("pause", rank_)) std::this_thread::sleep_for(*pause);
      began = Clock::now();
      if (const auto result = tuttiCommShrink(comm.get(), nullptr, 0, &made, nullptr, TUTTI_SHRINK_DEFAULT);
          result != tuttiSuccess) {
        Say(fmt::format("cannot go on after {:.0f} ms: {}", MsSince(began), Reason(result, nullptr)));
        return kFailed;
      }
      comm.reset(made);
      end = Clock::now() + *on;
      SayWhoGoesOn(comm.get(), MsSince(began));
    }
  }

 private:
  static constexpr int kFailed = 1, kWrong = 3;

  std::size_t Count() const { return options_.bytes / sizeof(float); }
  void Say(const std::string& text) const {
    fmt::print("rank {} {}\n", rank_, text);
    std::fflush(stdout);
  }
  static std::string Reason(tuttiResult_t result, tuttiComm_t comm) {
    return fmt::format("{}: {}", tuttiGetErrorString(result), tuttiGetLastError(comm));
  }

  std::optional<int> ReduceWithDeeds(Comm& comm, Clock::time_point end) {
    std::atomic<bool> aborted = false;
    std::optional<int> status;
    {
      std::optional<Later> aborts, revokes;
      if (const auto after = options_.Deed("abort", rank_)) {
        aborts.emplace(*after, [&] {
          aborted = true;
          tuttiCommAbort(comm.get());
        });
      }
      if (const auto after = options_.Deed("revoke", rank_)) {
        revokes.emplace(*after, [&] { tuttiCommRevoke(comm.get(), TUTTI_REVOKE_DEFAULT); });
      }
      const auto late = options_.Time("late");
      if (late && rank_ + 1 == SizeOf(comm.get())) std::this_thread::sleep_for(*late);
      made_at_ = Clock::now();
      status = Reduce(comm.get(), end, &aborted);
    }
    if (aborted) {
      static_cast<void>(comm.release());  // the abort has freed it
      Say("aborts");
      return 0;
    }
    return status;
  }

  // Reduces until all stop together, when the lowest rank's time is over. Returns nothing if it failed.
  std::optional<int> Reduce(tuttiComm_t comm, Clock::time_point end, const std::atomic<bool>* aborted = nullptr) {
    int rank = 0, ranks = 0;
    if (tuttiCommUserRank(comm, &rank) != tuttiSuccess) rank = -1;
    ranks = SizeOf(comm);
    const auto slow = options_.Deed("slow", rank_);
    const bool mixes = options_.more.contains("mix");
    long operations = 0;
    for (bool more = true; more;) {
      if (slow) std::this_thread::sleep_for(*slow);
      Fill(operations, rank);
      // The last element is nonzero if rank 0 wants to stop.
      data_.back() = rank == 0 && Clock::now() >= end ? 1.0F : 0.0F;
      auto called = Clock::now();
      auto result = tuttiSuccess;
      if (mixes) {
        std::optional<std::string> wrong;
        result = tutti::testing::RunOneOfTheMix(comm, rank, ranks, Count(), operations, Salt(), wrong);
        if (wrong) {
          Say("has a wrong result: " + *wrong);
          return kWrong;
        }
      }
      if (result == tuttiSuccess) {
        called = Clock::now();
        result = Call(comm);
      }
      if (aborted != nullptr && *aborted) return std::nullopt;
      if (result != tuttiSuccess) {
        Say(fmt::format("failed after {:.0f} ms of waiting: {}", MsSince(called), Reason(result, comm)));
        return std::nullopt;
      }
      if (!odd_ && !Check(operations, ranks)) return kWrong;
      if (operations++ == 0 && generation_ == 0) Say("runs");
      more = data_.back() == 0;
    }
    Say(fmt::format("is done: {} operations", operations));
    return 0;
  }

  // Makes the all-reduce, unless this rank's deed is to call something else. Another call may succeed: a broadcast
  // root does not wait for the others.
  tuttiResult_t Call(tuttiComm_t comm) {
    const auto due = [&](const char* name) {
      const auto after = generation_ == 0 ? options_.Deed(name, rank_) : std::nullopt;
      const bool now = after && Clock::now() - made_at_ >= *after;
      odd_ = odd_ || now;
      return now;
    };
    odd_ = false;
    float* const data = data_.data();
    if (due("call")) return tuttiBroadcast(data, data, data_.size(), tuttiFloat, rank_, comm, nullptr);
    const std::size_t count = data_.size() - (due("count") ? 1 : 0);
    const auto op = due("operator") ? tuttiMax : tuttiSum;
    return tuttiAllReduce(data, data, count, tuttiFloat, op, comm, nullptr);
  }

  // The part of an element that all ranks share: small, so that sums are exact, and different in the next operation.
  std::size_t Common(std::size_t element, long operation) const {
    constexpr std::size_t kValues = 512;
    return (element + static_cast<std::size_t>(operation) + Salt()) % kValues;
  }
  // Different in each communicator.
  std::size_t Salt() const {
    constexpr std::size_t kBetweenGenerations = 7;
    return kBetweenGenerations * generation_;
  }
  void Fill(long operation, int rank) {
    for (std::size_t i = 0; i < Count(); ++i) {
      data_[i] = static_cast<float>(Common(i, operation) + static_cast<std::size_t>(rank));
    }
  }
  bool Check(long operation, int ranks) const {
    const auto all = static_cast<std::size_t>(ranks);
    for (std::size_t i = 0; i < Count(); ++i) {
      const auto right = static_cast<float>(Common(i, operation) * all + all * (all - 1) / 2);
      if (data_[i] == right) continue;
      Say(fmt::format("has a wrong result: element {} of operation {} is {}, not {}", i, operation, data_[i], right));
      return false;
    }
    return true;
  }

  // Asks the communicator for its members. If this fails, so does the next operation, which reports it.
  void SayWhoGoesOn(tuttiComm_t comm, double ms) const {
    int rank = -1;
    std::vector<int> members(static_cast<std::size_t>(SizeOf(comm)), -1);
    tuttiCommUserRank(comm, &rank);
    const bool known = tuttiAllGather(&rank_, members.data(), 1, tuttiInt32, comm, nullptr) == tuttiSuccess;
    Say(fmt::format("goes on as rank {} of {} after {:.0f} ms: {}", rank, members.size(), ms,
                    known ? fmt::format("with ranks {}", fmt::join(members, " ")) : "but not for long"));
  }

  static int SizeOf(tuttiComm_t comm) {
    int size = 0;
    tuttiCommCount(comm, &size);
    return size;
  }

  Options options_;
  int rank_;
  std::vector<float> data_;
  std::size_t generation_ = 0;  // communicators that have failed
  Clock::time_point made_at_;
  bool odd_ = false;  // the last operation differed from the other ranks'
};

// The rank that torchrun, Open MPI or MPICH gave this process; or nothing.
const char* OwnRank() {
  for (const char* const name : {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    if (const char* const rank = std::getenv(name)) return rank;
  }
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int kUsage = 2;
  const char* const rank = OwnRank();
  if (argc < 3 || rank == nullptr) return kUsage;
  Options options{std::chrono::seconds(std::stol(argv[1])), std::stoul(argv[2]), {}};
  for (const std::string& option : std::vector<std::string>(argv + 3, argv + argc)) {
    const auto equals = option.find('=');
    if (equals == std::string::npos) return kUsage;
    options.more[option.substr(0, equals)] = option.substr(equals + 1);
  }
  return HostRank(std::move(options), std::stoi(rank)).Run();
}
