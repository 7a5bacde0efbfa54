// One call of a function of the system fails in one rank while all join, split, register a window, make a stream, shrink
// or compute for the first time. Every rank soon gets a code, and none keeps a descriptor or a thread of what failed.
#include "tests/faults/failing_calls.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <tuple>

#include "testing/descriptors.h"
#include "testing/ranks.h"

namespace tutti::testing {
namespace {

constexpr int kRanks = 3;
// The library promises a second; the rest is for a busy machine. Nobody may wait for the time-outs.
constexpr std::int64_t kSoonNs = 5'000'000'000;
constexpr const char* kTimeoutMs = "20000";

enum class Phase { init, split, window, stream, shrink, collective };
constexpr std::array kPhases = {Phase::init,   Phase::split,  Phase::window,
                                Phase::stream, Phase::shrink, Phase::collective};
constexpr std::array<const char*, kPhases.size()> kNames = {"init",   "split",  "window",
                                                            "stream", "shrink", "collective"};

// What a rank has when the phase begins, and what the phase makes.
struct Things {
  Comm comm, child;
  void* memory = nullptr;
  tuttiStream_t stream = nullptr;
  std::vector<float> data = std::vector<float>(1 << 18, 1);

  tuttiResult_t Do(Phase phase, Rank& self) {
    switch (phase) {
      case Phase::init: return tuttiCommInitRank(comm.address(), self.size(), self.IdOf(), self.rank());
      case Phase::split: return tuttiCommSplit(comm, 0, self.rank(), child.address(), nullptr);
      case Phase::shrink: return tuttiCommShrink(comm, nullptr, 0, child.address(), nullptr, 0);
      case Phase::collective: return AllReduce(comm, data);
      case Phase::window: {
        tuttiWindow_t window = nullptr;
        return tuttiCommWindowRegister(comm, memory, 1 << 20, &window, 0);
      }
      case Phase::stream: {
        const auto made = tuttiStreamCreate(&stream);
        if (made != tuttiSuccess) return made;
        const auto queued = tuttiBroadcast(data.data(), data.data(), 100, tuttiFloat32, 0, comm, stream);
        const auto ended = tuttiStreamSynchronize(stream);
        return queued != tuttiSuccess ? queued : ended;
      }
    }
    return tuttiInternalError;
  }
  void End(bool failed) {
    child.Destroy();
    if (failed && comm != nullptr) {
      EXPECT_TRUE(Ok(tuttiCommAbort(comm.Release())));
    }
    comm.Destroy();
    if (stream != nullptr) {
      EXPECT_TRUE(Ok(tuttiStreamDestroy(stream)));
    }
    if (memory != nullptr) {
      EXPECT_TRUE(Ok(tuttiMemFree(memory)));
    }
  }
};

struct Failure {
  int rank = 0;
  std::string_view function;
  int at = 0;  // 0: none fails
};

class FailingCallsSlow : public ::testing::TestWithParam<std::tuple<Phase, int>> {
 protected:
  static Phase phase() { return std::get<0>(GetParam()); }

  // Runs the phase; returns how often `failure.rank` called each function meanwhile.
  std::vector<int> Run(const Failure& failure) {
    RunOptions options;
    options.limit = std::chrono::seconds(30);
    options.environment = {{"TUTTI_INIT_TIMEOUT_MS", kTimeoutMs},
                           {"TUTTI_TIMEOUT_MS", kTimeoutMs},
                           {"TUTTI_VIRTUAL_HOSTS", std::to_string(std::get<1>(GetParam()))}};
    const auto outcomes = RunRanks(
        kRanks, [&failure](Rank& self) { BeRank(self, failure); }, options);
    std::vector<int> counts;
    for (const auto& note : outcomes[static_cast<std::size_t>(failure.rank)].notes) counts.push_back(std::stoi(note));
    return counts;
  }

 private:
  static void BeRank(Rank& self, const Failure& failure) {
    {  // what a process opens once
      Comm first = self.Join(nullptr, 1);
      Things warm;
      EXPECT_TRUE(Ok(tuttiStreamCreate(&warm.stream)));
      warm.End(false);
    }
    Things things;
    self.IdOf();  // rank 0 opens its port before it counts
    const auto descriptors = OpenDescriptors(), threads = Threads();
    if (phase() != Phase::init) things.comm = self.Join();
    if (phase() == Phase::window) {
      ASSERT_TRUE(Ok(tuttiMemAlloc(&things.memory, 1 << 20)));
    }
    self.Meet();
    const bool fails = self.rank() == failure.rank;
    const auto begin = MonotonicNs();
    if (fails) FailNext(failure.function, failure.at);
    const auto result = things.Do(phase(), self);
    FailNoMore();
    const auto took = MonotonicNs() - begin;
    EXPECT_LT(took, kSoonNs) << "code " << result << ": " << tuttiGetLastError(nullptr);
    if (failure.at == 0) {
      EXPECT_TRUE(Ok(result));
      for (const auto function : FailingCalls()) {
        if (fails) self.Note(std::to_string(Passed(function)));
      }
    }
    things.End(result != tuttiSuccess);
    self.Meet();
    // Threads end a moment later.
    for (int i = 0; i < 200 && (OpenDescriptors() > descriptors || Threads() > threads); ++i) usleep(5'000);
    EXPECT_LE(OpenDescriptors(), descriptors)
        << fmt::format("code {}\n{}", static_cast<int>(result), fmt::join(DescribeDescriptors(), "\n"));
    EXPECT_LE(Threads(), threads) << "code " << result;
  }
};

INSTANTIATE_TEST_SUITE_P(In, FailingCallsSlow,
                         ::testing::Combine(::testing::ValuesIn(kPhases), ::testing::Values(1, 2)),
                         [](const auto& info) {
                           return fmt::format("{}_on_{}", kNames[static_cast<std::size_t>(std::get<0>(info.param))],
                                              std::get<1>(info.param) == 1 ? "one_host" : "two_hosts");
                         });

// Another call of each function in each iteration of a campaign.
TEST_P(FailingCallsSlow, EndEveryRankWithACode) {
  std::mt19937 random(Iteration());
  for (int rank = 0; rank < 2; ++rank) {
    const auto counts = Run({rank, "socket", 0});
    const auto functions = FailingCalls();
    ASSERT_EQ(counts.size(), functions.size());
    EXPECT_GT(*std::ranges::max_element(counts), 0) << "the library does not call the functions that can fail";
    for (std::size_t i = 0; i < functions.size(); ++i) {
      if (counts[i] == 0) continue;
      const int at = 1 + static_cast<int>(random() % static_cast<unsigned>(counts[i]));
      SCOPED_TRACE(fmt::format("{}: call {} of {} fails in rank {}", functions[i], at, counts[i], rank));
      Run({rank, functions[i], at});
    }
  }
}

}  // namespace
}  // namespace tutti::testing
