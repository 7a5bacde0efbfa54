// A rank killed at any moment: every survivor gets tuttiRemoteError soon, with a message that names the dead rank, and
// nothing stays behind.
#include <fmt/format.h>

#include <filesystem>
#include <random>
#include <set>

#include "tests/collective_case.h"

namespace tutti::testing {
namespace {

constexpr int kTrials = 200;
constexpr int kRanks = 4;
// Promised is a second; the rest is for a machine that runs other things.
constexpr std::int64_t kSoonNs = 5'000'000'000;

std::set<std::string> FilesIn(const char* folder) {
  std::set<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const auto name = entry.path().filename().string();
    if (name.find("tutti") != std::string::npos) names.insert(name);
  }
  return names;
}

// The places of Board::numbers.
constexpr std::size_t kDeathNs = 0;

void BeInTrial(Rank& self, int trial) {
  std::mt19937 random(static_cast<std::uint32_t>(trial));
  const int victim = static_cast<int>(random() % kRanks);
  // From the middle of init to some hundred operations later.
  const bool early = trial % 8 == 0;  // such trials mostly wait for the init timeout
  const std::chrono::microseconds delay(early ? random() % 3'000 : 4'000 + random() % 30'000);
  auto& death = self.board().numbers[kDeathNs];
  self.IdOf();  // without rank 0's id the others would wait for the harness, not in the library
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
  EXPECT_LT(late, kSoonNs) << message;
  // Who is killed before anybody has heard of it is one that never came: there is only the clock to tell.
  const bool joined = static_cast<tuttiComm_t>(comm) != nullptr;
  EXPECT_TRUE(result == tuttiRemoteError || (!joined && result == tuttiTimeoutError)) << result << ": " << message;
  // Who comes to a meeting place after its failure finds it closed, and cannot know for whom.
  const auto says = [&](const char* words) { return message.find(words) != std::string::npos; };
  const bool too_late = !joined && (says("rendezvous") || says("joining has failed") || says("shared memory"));
  const bool named = message.find(fmt::format("rank {}", victim)) != std::string::npos || too_late;
  EXPECT_TRUE(named) << "rank " << victim << " died, but: " << message;
  self.Note(message);
}

TEST(Kill, AnyRankAtAnyMoment) {
  const auto memory_before = FilesIn("/dev/shm"), files_before = FilesIn("/tmp");
  std::set<std::string> shapes;  // of messages, without their numbers
  for (int trial = 0; trial < kTrials; ++trial) {
    SCOPED_TRACE(fmt::format("trial {}", trial));
    std::mt19937 random(static_cast<std::uint32_t>(trial));
    const int victim = static_cast<int>(random() % kRanks);
    RunOptions options;
    options.may_die = {victim};
    options.limit = std::chrono::seconds(20);
    options.environment = {{"TUTTI_INIT_TIMEOUT_MS", "2000"}};
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
