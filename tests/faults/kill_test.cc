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

// Without folders, which other tests make.
std::set<std::string> FilesIn(const char* folder) {
  std::set<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const auto name = entry.path().filename().string();
    if (name.find("tutti") != std::string::npos && !entry.is_directory(ignored)) names.insert(name);
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

// Control calls that leave the communicator as it is, drawn alike on all ranks, until one fails. No shrink: those that
// survive would meet in it before some of them have failed, and then call other things.
class ControlCalls {
 public:
  ControlCalls(Rank& self, tuttiComm_t comm, std::uint32_t seed) : self_(self), comm_(comm), random_(seed) {
    EXPECT_TRUE(Ok(tuttiMemAlloc(&memory_, kWindow)));
  }
  ~ControlCalls() { tuttiMemFree(memory_); }
  ControlCalls(const ControlCalls&) = delete;
  ControlCalls& operator=(const ControlCalls&) = delete;

  tuttiResult_t Next() {
    constexpr int kKept = 4;
    Comm child;
    auto result = Call(child);
    if (result == tuttiSuccess && child != nullptr) {
      what_ += ", an all-reduce there";
      result = AllReduce(child, data_);
    }
    kept_.push_back(std::move(child));  // some outlive later ones
    if (kept_.size() > kKept) kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(random_() % kKept));
    return result;
  }
  const std::string& what() const { return what_; }

 private:
  static constexpr std::size_t kWindow = 65'536;

  tuttiResult_t Call(Comm& child) {
    const int rank = self_.rank();
    switch (random_() % 5) {
      case 0: what_ = "a split of all"; return tuttiCommSplit(comm_, 0, rank, child.address(), nullptr);
      case 1: what_ = "a split in two"; return tuttiCommSplit(comm_, rank % 2, -rank, child.address(), nullptr);
      case 2:
        what_ = "a split without rank 0";
        return tuttiCommSplit(comm_, rank == 0 ? TUTTI_SPLIT_NOCOLOR : 0, rank, child.address(), nullptr);
      case 3: {
        what_ = "a window";
        tuttiWindow_t window = nullptr;
        const auto result = tuttiCommWindowRegister(comm_, memory_, kWindow, &window, TUTTI_WIN_DEFAULT);
        if (result == tuttiSuccess) tuttiCommWindowDeregister(comm_, window);
        return result;
      }
      default: what_ = "an all-reduce"; return AllReduce(comm_, data_);
    }
  }

  Rank& self_;
  tuttiComm_t comm_;
  std::mt19937 random_;
  void* memory_ = nullptr;
  std::vector<float> data_ = std::vector<float>(1000, 1);
  std::vector<Comm> kept_;
  std::string what_;
};

// One rank dies while all make control calls. Each survivor gets a code soon, and they go on without it.
void DieInControlCalls(Rank& self, std::uint32_t seed) {
  std::mt19937 random(seed);
  const int victim = static_cast<int>(random() % static_cast<unsigned>(self.size()));
  const std::chrono::microseconds delay(random() % 120'000);
  auto& death = self.board().numbers[kDeathNs];
  auto comm = self.Join();
  self.Meet();
  if (self.rank() == victim) {
    death.store(MonotonicNs() + std::chrono::nanoseconds(delay).count());
    KillThisProcessAfter(delay);
  }
  ControlCalls calls(self, comm, seed);
  tuttiResult_t result = tuttiSuccess;
  while (result == tuttiSuccess) result = calls.Next();
  const std::string message = tuttiGetLastError(nullptr);
  const auto late = MonotonicNs() - death.load();
  EXPECT_GE(late, 0) << "failed before anybody died: " << calls.what() << ": " << message;
  EXPECT_LT(late, kSoonNs) << calls.what() << ": " << message;
  EXPECT_EQ(result, tuttiRemoteError) << calls.what() << ": " << message;
  tuttiCommRevoke(comm, TUTTI_REVOKE_DEFAULT);
  Comm rest;
  ASSERT_TRUE(Ok(tuttiCommShrink(comm, nullptr, 0, rest.address(), nullptr, TUTTI_SHRINK_DEFAULT)));
  int ranks = 0;
  EXPECT_TRUE(Ok(tuttiCommCount(rest, &ranks)));
  EXPECT_EQ(ranks, self.size() - 1);
  std::vector<float> data(1000, 1);
  EXPECT_TRUE(Ok(AllReduce(rest, data)));
  EXPECT_EQ(data[0], static_cast<float>(self.size() - 1));
  self.Note(fmt::format("late {} ms", late / 1'000'000));
}

TEST(KillSlow, AnyRankInsideControlCalls) {
  constexpr std::uint32_t kKills = 40;
  std::int64_t slowest = 0;
  for (std::uint32_t kill = 0; kill < kKills; ++kill) {
    const std::uint32_t seed = Iteration() * kKills + kill;
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937 random(seed);
    const int ranks = 2 + static_cast<int>(seed % 4);
    RunOptions options;
    options.may_die = {static_cast<int>(random() % static_cast<unsigned>(ranks))};
    options.limit = std::chrono::seconds(30);
    options.environment = {{"TUTTI_VIRTUAL_HOSTS", seed % 5 == 4 ? "2" : "1"}};
    for (const auto& outcome : RunRanks(
             ranks, [seed](Rank& self) { DieInControlCalls(self, seed); }, options)) {
      for (const auto& note : outcome.notes) slowest = std::max<std::int64_t>(slowest, std::atoll(note.c_str() + 5));
    }
    if (::testing::Test::HasFailure()) break;
  }
  fmt::print("the slowest answer after {} ms\n", slowest);
}

}  // namespace
}  // namespace tutti::testing
