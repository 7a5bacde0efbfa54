// A rank killed at any moment: every survivor soon gets tuttiRemoteError, with a message that names the dead rank, and
// nothing is left behind.
#include <fmt/format.h>

#include <filesystem>
#include <random>
#include <set>

#include "testing/collective_case.h"

namespace tutti::testing {
namespace {

constexpr int kTrials = 200;
constexpr int kRanks = 4;
// The library promises a second; the rest is for a busy machine. Deaths that only a timeout detects are found later.
constexpr std::int64_t kSoonNs = 3'000'000'000;
constexpr std::int64_t kInitTimeoutMs = 4'000;
constexpr std::int64_t kAfterTimeoutNs = kInitTimeoutMs * 1'000'000 + kSoonNs;

std::set<std::string> FilesIn(const char* folder) {
  std::set<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const auto name = entry.path().filename().string();
    if (name.find("tutti") != std::string::npos) names.insert(name);
  }
  return names;
}

// Indices in Board::numbers.
constexpr std::size_t kDeathNs = 0;

void BeInTrial(Rank& self, int trial) {
  std::mt19937 random(static_cast<std::uint32_t>(trial));
  const int victim = static_cast<int>(random() % kRanks);
  // From the middle of init to some hundred operations later.
  const bool early = trial % 2 == 0;
  const std::chrono::microseconds delay(early ? random() % 15'000 : 10'000 + random() % 30'000);
  auto& death = self.board().numbers[kDeathNs];
  self.IdOf();  // otherwise ranks would wait for rank 0's id in the harness, not in the library
  self.Meet();
  if (self.rank() == victim) {
    death.store(MonotonicNs() + std::chrono::nanoseconds(delay).count());
    KillThisProcessAfter(delay);
  }
  Comm comm;
  auto result = tuttiCommInitRank(comm.address(), self.size(), self.IdOf(), self.rank());
  std::string message = tuttiGetLastError(nullptr);
  Arena arena(Arena::Kind::plain, 300'000);
  const auto cases = MixedCases(static_cast<std::uint32_t>(trial), 3 * kWhats, kRanks, 200'000);
  std::string failure;
  for (std::size_t i = 0; result == tuttiSuccess && failure.empty(); ++i) {
    failure = RunCase(cases[i % cases.size()], self.rank(), self.size(), comm, nullptr, arena);
    if (failure.empty()) continue;
    EXPECT_TRUE(Ok(tuttiCommGetAsyncError(comm, &result)));
    message = tuttiGetLastError(comm);
    EXPECT_NE(result, tuttiSuccess) << "the communicator lives, but: " << failure;
  }
  const auto late = MonotonicNs() - death.load();
  EXPECT_GE(late, 0) << "failed before anybody died: " << message;
  const auto says = [&](std::string_view words) { return message.find(words) != std::string::npos; };
  // A rank killed before any other has heard from it looks like one that never came: only the timeout reports it.
  const bool never_came = says(fmt::format("rank {} of {} never joined", victim, kRanks));
  // The rendezvous ends with rank 0's process, whether rank 0 died or was the first to get the error. A rank that
  // connects later finds no server, and cannot know which rank died.
  const bool too_late = says("joining has already failed or timed out") || says("the rendezvous closed its connection");
  EXPECT_LT(late, never_came || too_late ? kAfterTimeoutNs : kSoonNs) << message;
  EXPECT_EQ(result, never_came ? tuttiTimeoutError : tuttiRemoteError) << message;
  const bool named = says(fmt::format("rank {}", victim)) || too_late;
  EXPECT_TRUE(named) << "rank " << victim << " died, but: " << message;
  self.Note(message);
}

TEST(KillSlow, AnyRankAtAnyMoment) {
  const auto memory_before = FilesIn("/dev/shm"), files_before = FilesIn("/tmp");
  std::set<std::string> shapes;  // of messages, without their numbers
  for (int trial = 0; trial < kTrials; ++trial) {
    SCOPED_TRACE(fmt::format("trial {}", trial));
    std::mt19937 random(static_cast<std::uint32_t>(trial));
    const int victim = static_cast<int>(random() % kRanks);
    RunOptions options;
    options.may_die = {victim};
    options.limit = std::chrono::seconds(20);
    options.environment = {{"TUTTI_INIT_TIMEOUT_MS", std::to_string(kInitTimeoutMs)}};
    const auto outcomes = RunRanks(
        kRanks, [trial](Rank& self) { BeInTrial(self, trial); }, options);
    EXPECT_FALSE(outcomes[static_cast<std::size_t>(victim)].finished);
    for (const auto& outcome : outcomes) {
      for (const auto& note : outcome.notes) {
        auto shape = note;
        std::erase_if(shape, [](char letter) { return letter >= '0' && letter <= '9'; });
        if (shapes.insert(shape).second && shapes.size() <= 20) fmt::print("  {}\n", note);
      }
    }
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_EQ(FilesIn("/dev/shm"), memory_before);
  EXPECT_EQ(FilesIn("/tmp"), files_before);
}

}  // namespace
}  // namespace tutti::testing
