// Random legal programs (docs/lifecycles.md, "A legal program") on two communicators, the second of which is sometimes
// non-blocking: none may deadlock, and all sums must be right.
//   tutti_legal_programs [--seed N] [--first N] [--trials N] [--only N] [--stops]
// A trial depends only on the seed and its number; --only replays one. With --stops, each process stands still again and
// again for a random while. Exit status: 0 if nothing was found.
//
// A trial draws one list of calls for all ranks: an order in which all of them can be done. Each rank then makes its own
// calls, in an order of its own that adds no need from a later call of that list to an earlier one (class Maker).
#include <fmt/format.h>
#include <getopt.h>
#include <gtest/gtest-spi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <optional>
#include <random>
#include <vector>

#include "testing/ranks.h"
#include "tests/races/random_stops.h"

namespace tutti::testing {
namespace {

constexpr int kMostRanks = 4;
constexpr std::size_t kComms = 2, kStreams = 3;
constexpr std::size_t kMostCalls = 24;
constexpr std::size_t kCount = 3000;  // elements of a large call
// A wait that nothing ends fails by TUTTI_TIMEOUT_MS. A busy machine is not a fault.
constexpr const char* kTimeoutMs = "60000";
constexpr std::chrono::seconds kLimit{300};

enum class Kind : std::uint8_t { all_reduce, message, signal, put, exchange, split, shrink, window };

// One call of the list. A message is a send and its receive; a signal, or a put with one, belongs to its wait.
struct Listed {
  Kind kind = Kind::all_reduce;
  std::size_t comm = 0;
  std::size_t count = 1;
  int from = 0, to = 0;  // of a message, signal or put

  bool concerns(int rank) const {
    const bool of_two = kind == Kind::message || kind == Kind::signal || kind == Kind::put;
    return !of_two || rank == from || rank == to;
  }
  bool controls() const { return kind == Kind::split || kind == Kind::shrink || kind == Kind::window; }
  bool collected() const { return kind == Kind::all_reduce || kind == Kind::message; }  // by a group
};

struct Trial {
  std::uint32_t seed = 0, number = 0;
  int ranks = 2;
  bool threads = false;
  bool stops = false;
  bool in_background = false;  // the second communicator is non-blocking
  std::vector<Listed> list;
};

Trial Derive(std::uint32_t seed, std::uint32_t number) {
  std::seed_seq both{seed, number};
  std::mt19937 random(both);
  const auto pick = [&](std::size_t below) { return static_cast<std::size_t>(random() % below); };
  Trial trial;
  trial.seed = seed;
  trial.number = number;
  trial.ranks = 2 + static_cast<int>(pick(kMostRanks - 1));
  trial.threads = pick(2) == 0;
  trial.list.resize(2 + pick(kMostCalls - 1));
  for (auto& each : trial.list) {
    constexpr std::array kUsual = {Kind::all_reduce, Kind::all_reduce, Kind::all_reduce, Kind::message,
                                   Kind::message,    Kind::signal,     Kind::put,        Kind::exchange};
    constexpr std::array kRare = {Kind::split, Kind::shrink, Kind::window};
    const auto drawn = pick(kUsual.size() * 4);
    each.kind = drawn < kRare.size() ? kRare[drawn] : kUsual[drawn % kUsual.size()];
    each.comm = pick(kComms);
    each.count = pick(3) == 0 ? kCount : 1;
    each.from = static_cast<int>(pick(static_cast<std::size_t>(trial.ranks)));
    each.to = (each.from + 1 + static_cast<int>(pick(static_cast<std::size_t>(trial.ranks) - 1))) % trial.ranks;
  }
  trial.in_background = pick(3) == 0;
  return trial;
}

// Makes one rank's calls. Of the calls that are left, it makes
// - the first of the list, alone or in a group with those right behind it, so that it blocks this thread;
// - or one that is the first left on its communicator, or a group of such, on streams on which only earlier ones of the
//   list are.
class Maker {
 public:
  Maker(const Trial& trial, Rank& self) : trial_(trial), self_(self) {
    std::seed_seq own{trial.seed, trial.number, static_cast<std::uint32_t>(self.rank()) + 1};
    random_.seed(own);
  }

  void Run() {
    comms_[0] = self_.Join();
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.blocking = trial_.in_background ? 0 : 1;
    EXPECT_TRUE(Ok(Ended(tuttiCommSplit(comms_[0], 0, self_.rank(), comms_[1].address(), &config), comms_[1])));
    for (std::size_t i = 0; i < kComms; ++i) {
      void* memory = nullptr;
      EXPECT_TRUE(Ok(tuttiMemAlloc(&memory, trial_.list.size() * kCount * sizeof(float))));
      windows_[i].memory = static_cast<float*>(memory);
      EXPECT_TRUE(Ok(Register(i, &windows_[i].window)));
    }
    for (auto& stream : streams_) EXPECT_TRUE(Ok(tuttiStreamCreate(&stream)));
    for (auto& stream : waits_) EXPECT_TRUE(Ok(tuttiStreamCreate(&stream)));
    for (std::size_t i = 0; i < trial_.list.size(); ++i) {
      if (trial_.list[i].concerns(self_.rank())) left_[trial_.list[i].comm].push_back(i);
    }
    while (!left_[0].empty() || !left_[1].empty()) MakeSome();
    for (auto* const stream : streams_) EXPECT_TRUE(Ok(tuttiStreamSynchronize(stream)));
    for (auto* const stream : waits_) EXPECT_TRUE(Ok(tuttiStreamSynchronize(stream)));
    EXPECT_TRUE(Ok(Ended(tuttiInProgress, comms_[1])));
    for (const auto& sum : sums_) {
      EXPECT_EQ(std::ranges::count(sum.output, sum.expected), static_cast<std::ptrdiff_t>(sum.output.size()));
    }
    for (std::size_t i = 0; i < trial_.list.size(); ++i) {
      const auto& call = trial_.list[i];
      if (call.kind != Kind::put || call.to != self_.rank()) continue;
      const float* const place = windows_[call.comm].memory + i * kCount;
      EXPECT_EQ(std::count(place, place + call.count, static_cast<float>(call.from + 1)),
                static_cast<std::ptrdiff_t>(call.count))
          << "call " << i << " of the list";
    }
    for (auto* const stream : streams_) EXPECT_TRUE(Ok(tuttiStreamDestroy(stream)));
    for (auto* const stream : waits_) EXPECT_TRUE(Ok(tuttiStreamDestroy(stream)));
    for (std::size_t i = 0; i < kComms; ++i) {
      EXPECT_TRUE(Ok(tuttiCommWindowDeregister(comms_[i], windows_[i].window)));
    }
    self_.Meet();  // peers may have had their parts of the windows in use
    for (const auto& each : windows_) EXPECT_TRUE(Ok(tuttiMemFree(each.memory)));
  }

 private:
  // Each put of the list has a place of its own in it.
  struct Window {
    float* memory = nullptr;
    tuttiWindow_t window = nullptr;
  };
  struct Buffers {
    std::vector<float> input, output;
    float expected = 0;
  };

  std::size_t Pick(std::size_t below) { return static_cast<std::size_t>(random_() % below); }
  std::size_t FirstOf(std::size_t comm) const { return left_[comm].empty() ? trial_.list.size() : left_[comm].front(); }

  void MakeSome() {
    const bool grouped = Pick(3) == 0;
    if (Pick(2) == 0) return MakeBlocking(grouped ? 1 + Pick(4) : 1);
    const std::size_t comm = FirstOf(0) == trial_.list.size() ? 1 : FirstOf(1) == trial_.list.size() ? 0 : Pick(kComms);
    std::vector<std::size_t> taken;
    Take(comm, grouped ? 1 + Pick(3) : 1, taken);
    if (grouped && trial_.list[taken.front()].collected()) Take(1 - comm, 1 + Pick(2), taken);
    MakeOnStreams(taken);
  }

  // The first calls that are left on the communicator; of several, only those that a group collects.
  void Take(std::size_t comm, std::size_t most, std::vector<std::size_t>& taken) {
    for (auto& left = left_[comm]; !left.empty() && most > 0; --most) {
      if (!taken.empty() && (!trial_.list[taken.front()].collected() || !trial_.list[left.front()].collected())) return;
      taken.push_back(left.front());
      left.pop_front();
    }
  }

  void MakeBlocking(std::size_t most) {
    std::vector<std::size_t> taken;
    for (; most > 0; --most) {
      const auto before = taken.size();
      Take(FirstOf(0) < FirstOf(1) ? 0 : 1, 1, taken);
      if (taken.size() == before) break;
    }
    Make(taken, [](std::size_t) { return nullptr; });
  }

  // Falls back to blocking calls if no stream can take them: then the list's earlier ones must go before.
  void MakeOnStreams(const std::vector<std::size_t>& taken) {
    std::vector<tuttiStream_t> chosen;
    const auto last = *std::ranges::max_element(taken);
    std::array<bool, kStreams> used{};
    for (const auto call : taken) {
      // The calls of a group on one communicator begin together.
      const auto begins =
          *std::ranges::find(taken, trial_.list[call].comm, [&](auto i) { return trial_.list[i].comm; });
      const auto first = Pick(kStreams);
      auto place = kStreams;
      for (std::size_t k = 0; k < kStreams && place == kStreams; ++k) {
        const auto at = (first + k) % kStreams;
        if (newest_[at] <= begins) place = at;
      }
      if (place == kStreams || trial_.list[call].controls()) {
        for (auto back = taken.rbegin(); back != taken.rend(); ++back) left_[trial_.list[*back].comm].push_front(*back);
        return MakeBlocking(1);
      }
      used[place] = true;
      chosen.push_back(streams_[place]);
    }
    for (std::size_t i = 0; i < kStreams; ++i) {
      if (used[i]) newest_[i] = last + 1;
    }
    Make(taken, [&](std::size_t i) { return chosen[i]; });
  }

  template <typename StreamOf>
  void Make(const std::vector<std::size_t>& taken, StreamOf&& stream_of) {
    if (taken.size() > 1) {
      EXPECT_TRUE(Ok(tuttiGroupStart()));
    }
    for (std::size_t i = 0; i < taken.size(); ++i) {
      const auto result = MakeOne(taken[i], stream_of(i));
      EXPECT_TRUE(Ok(result)) << "call " << taken[i] << " of the list";
    }
    if (taken.size() > 1) {
      EXPECT_TRUE(Ok(Begun(tuttiGroupEnd())));
    }
  }

  // A call on the non-blocking communicator goes on behind this thread's back.
  [[nodiscard]] tuttiResult_t Begun(tuttiResult_t result) const {
    return trial_.in_background && result == tuttiInProgress ? tuttiSuccess : result;
  }
  static tuttiResult_t Ended(tuttiResult_t result, const Comm& comm) {
    return result == tuttiInProgress ? Await(comm) : result;
  }

  tuttiResult_t Register(std::size_t comm, tuttiWindow_t* window) {
    return Ended(tuttiCommWindowRegister(comms_[comm], windows_[comm].memory,
                                         trial_.list.size() * kCount * sizeof(float), window, TUTTI_WIN_DEFAULT),
                 comms_[comm]);
  }

  tuttiResult_t MakeOne(std::size_t index, tuttiStream_t stream) {
    const auto& call = trial_.list[index];
    const auto& comm = comms_[call.comm];
    const int rank = self_.rank(), other = rank == call.from ? call.to : call.from;
    Comm child;
    switch (call.kind) {
      case Kind::all_reduce: {
        auto& sum = NewBuffers(call.count, static_cast<float>(rank + 1));
        sum.expected = static_cast<float>(self_.size() * (self_.size() + 1) / 2);
        return Begun(
            tuttiAllReduce(sum.input.data(), sum.output.data(), call.count, tuttiFloat32, tuttiSum, comm, stream));
      }
      case Kind::message: {
        auto& data = NewBuffers(call.count, static_cast<float>(call.from));
        if (rank == call.from) {
          return Begun(tuttiSend(data.input.data(), call.count, tuttiFloat32, other, comm, stream));
        }
        data.expected = static_cast<float>(call.from);
        return Begun(tuttiRecv(data.output.data(), call.count, tuttiFloat32, other, comm, stream));
      }
      case Kind::signal:
        return Begun(rank == call.from ? tuttiSignal(other, 0, 0, 0, comm, stream) : Wait(other, 0, comm, stream));
      case Kind::put: {
        if (rank == call.to) return Begun(Wait(other, 2, comm, stream));
        const auto& data = NewBuffers(call.count, static_cast<float>(rank + 1));
        return Begun(tuttiPutSignal(data.input.data(), call.count, tuttiFloat32, other, windows_[call.comm].window,
                                    index * kCount * sizeof(float), 2, 0, 0, comm, stream));
      }
      case Kind::exchange: {  // every rank waits first, on a stream for that, and then sends
        for (int peer = 0; peer < self_.size(); ++peer) {
          if (peer != rank) {
            EXPECT_TRUE(Ok(Begun(Wait(peer, 1, comm, waits_[call.comm]))));
          }
        }
        for (int peer = 0; peer < self_.size(); ++peer) {
          if (peer != rank) {
            EXPECT_TRUE(Ok(Begun(tuttiSignal(peer, 1, 0, 0, comm, stream))));
          }
        }
        return tuttiSuccess;
      }
      case Kind::split: return Ended(tuttiCommSplit(comm, rank % 2, 0, child.address(), nullptr), child);
      case Kind::shrink:
        return Ended(tuttiCommShrink(comm, nullptr, 0, child.address(), nullptr, TUTTI_SHRINK_DEFAULT), child);
      case Kind::window: {  // the same memory once more
        tuttiWindow_t window = nullptr;
        const auto registered = Register(call.comm, &window);
        return registered != tuttiSuccess ? registered : tuttiCommWindowDeregister(comm, window);
      }
    }
    return tuttiInternalError;
  }

  static tuttiResult_t Wait(int peer, int signal, tuttiComm_t comm, tuttiStream_t stream) {
    tuttiWaitSignalDesc_t wait{1, peer, signal, 0};
    return tuttiWaitSignal(1, &wait, comm, stream);
  }

  Buffers& NewBuffers(std::size_t count, float value) {
    return sums_.emplace_back(Buffers{std::vector<float>(count, value), std::vector<float>(count, 0), 0});
  }

  const Trial& trial_;
  Rank& self_;
  std::mt19937 random_;
  std::array<Comm, kComms> comms_;
  std::array<Window, kComms> windows_;
  std::array<tuttiStream_t, kStreams> streams_{};
  std::array<tuttiStream_t, kComms> waits_{};   // for the waits of exchanges
  std::array<std::size_t, kStreams> newest_{};  // one more than the last call of the list that its stream needs
  std::array<std::deque<std::size_t>, kComms> left_;
  std::deque<Buffers> sums_;  // keeps the addresses
};

// The number of failures.
int Run(const Trial& trial) {
  using Reporter = ::testing::ScopedFakeTestPartResultReporter;
  ::testing::TestPartResultArray results;
  {
    const Reporter reporter(Reporter::INTERCEPT_ALL_THREADS, &results);
    const auto run = [&trial](Rank& self) {
      std::optional<RandomStops> stops;
      if (trial.stops && (!trial.threads || self.rank() == 0)) {
        stops.emplace(trial.number * kMostRanks + static_cast<std::uint32_t>(self.rank()));
      }
      Maker(trial, self).Run();
      if (trial.threads) self.Meet();  // rank 0's stops are those of all threads
    };
    RunRanks(trial.ranks, run,
             {.threads = trial.threads, .limit = kLimit, .environment = {{"TUTTI_TIMEOUT_MS", kTimeoutMs}}});
  }
  int failures = 0;
  for (int i = 0; i < results.size(); ++i) {
    if (!results.GetTestPartResult(i).failed()) continue;
    fmt::print("{}\n", results.GetTestPartResult(i).message());
    ++failures;
  }
  return failures;
}

struct Options {
  std::uint32_t seed = 1, first = 0, trials = 200;
  bool stops = false;
};

Options Parse(int argc, char** argv) {
  constexpr option kOptions[] = {{"seed", 1, nullptr, 's'}, {"first", 1, nullptr, 'f'}, {"trials", 1, nullptr, 't'},
                                 {"only", 1, nullptr, 'o'}, {"stops", 0, nullptr, 'p'}, {nullptr, 0, nullptr, 0}};
  Options options;
  for (int which = 0; (which = getopt_long(argc, argv, "", kOptions, nullptr)) != -1;) {
    if (which == '?') std::exit(2);
    if (which == 'p') options.stops = true;
    const auto number = optarg == nullptr ? 0 : static_cast<std::uint32_t>(std::strtoul(optarg, nullptr, 10));
    if (which == 's') options.seed = number;
    if (which == 't') options.trials = number;
    if (which == 'f' || which == 'o') options.first = number;
    if (which == 'o') options.trials = 1;
  }
  return options;
}

int Campaign(const char* program, const Options& options) {
  int bad = 0;
  for (std::uint32_t i = 0; i < options.trials; ++i) {
    auto trial = Derive(options.seed, options.first + i);
    trial.stops = options.stops;
    if (Run(trial) == 0) continue;
    ++bad;
    fmt::print("  in trial {}: {} ranks as {}, {} calls\n  replay: {} --seed {} --only {}{}\n", trial.number,
               trial.ranks, trial.threads ? "threads" : "processes", trial.list.size(), program, trial.seed,
               trial.number, trial.stops ? " --stops" : "");
    std::fflush(stdout);
  }
  fmt::print("{} trials{}, {} failed; seed {}\n", options.trials, options.stops ? " with stops" : "", bad,
             options.seed);
  return bad == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tutti::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest();
  return tutti::testing::Campaign(argv[0], tutti::testing::Parse(argc, argv));
}
