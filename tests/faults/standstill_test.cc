// Ranks that are stopped for longer than their time-outs, and continued: by a debugger, a batch system that suspends the
// job, a container that is frozen. Nothing failed, so nothing may be reported.
#include <unistd.h>

#include <array>
#include <csignal>
#include <thread>

#include "testing/ranks.h"

namespace tutti::testing {
namespace {

constexpr int kTimeoutMs = 1000;
constexpr std::chrono::milliseconds kStop{2500};

// A process beside the ranks, which stops and continues them.
class Stopper {
 public:
  Stopper(std::vector<pid_t> ranks, std::chrono::milliseconds stop) {
    child_ = fork();
    if (child_ != 0) return;
    for (const pid_t rank : ranks) kill(rank, SIGSTOP);
    std::this_thread::sleep_for(stop);
    for (const pid_t rank : ranks) kill(rank, SIGCONT);
    _exit(0);
  }

 private:
  pid_t child_;
};

struct Around {
  const char* hosts;
  const char* wait;
};
class Standstill : public ::testing::TestWithParam<Around> {
 protected:
  static RunOptions options() {
    return {.environment = {{"TUTTI_TIMEOUT_MS", std::to_string(kTimeoutMs)},
                            {"TUTTI_INIT_TIMEOUT_MS", std::to_string(kTimeoutMs)},
                            {"TUTTI_VIRTUAL_HOSTS", GetParam().hosts},
                            {"TUTTI_WAIT", GetParam().wait}}};
  }
  // All ranks' processes.
  static std::vector<pid_t> Introduce(Rank& self) {
    self.board().numbers[static_cast<std::size_t>(self.rank())].store(getpid());
    self.Meet();
    std::vector<pid_t> all;
    for (int r = 0; r < self.size(); ++r) {
      all.push_back(static_cast<pid_t>(self.board().numbers[static_cast<std::size_t>(r)].load()));
    }
    return all;
  }
};
INSTANTIATE_TEST_SUITE_P(Faults, Standstill,
                         ::testing::Values(Around{"1", ""}, Around{"1", "sleep"}, Around{"1", "yield"},
                                           Around{"2", ""}),
                         [](const auto& which) {
                           const std::string wait = which.param.wait;
                           return std::string(which.param.hosts) + "Hosts" + (wait.empty() ? "Adapts" : wait);
                         });

// What the stopped rank waits for comes meanwhile.
TEST_P(Standstill, OfAWaitingRankIsNoTimeout) {
  RunRanks(
      2,
      [](Rank& self) {
        const auto ranks = Introduce(self);
        auto comm = self.Join();
        std::vector<float> data(1000, 1);
        ASSERT_TRUE(Ok(AllReduce(comm, data)));
        if (self.rank() == 1) {
          usleep(100'000);
          const Stopper stopper({ranks[0]}, kStop);
          usleep(100'000);
        }
        EXPECT_TRUE(Ok(AllReduce(comm, data)));
        self.Meet();
      },
      options());
}

// The rank that is awaited stands still for as long.
TEST_P(Standstill, OfTheWholeJobIsNoTimeout) {
  RunRanks(
      2,
      [](Rank& self) {
        const auto ranks = Introduce(self);
        auto comm = self.Join();
        std::vector<float> data(1000, 1);
        ASSERT_TRUE(Ok(AllReduce(comm, data)));
        if (self.rank() == 1) {
          usleep(100'000);  // the other one waits
          const Stopper stopper(ranks, kStop);
          // Some of its own time: sleeping would count the stop.
          for (int i = 0; i < 30; ++i) usleep(10'000);
        }
        EXPECT_TRUE(Ok(AllReduce(comm, data)));
        self.Meet();
      },
      options());
}

// The same while a communicator is made and while it is split, where ranks wait on sockets.
TEST_P(Standstill, OfTheWholeJobIsNoTimeoutInControlCalls) {
  RunRanks(
      2,
      [](Rank& self) {
        const auto ranks = Introduce(self);
        const auto stop = [&] {
          if (self.rank() != 1) return;
          const Stopper stopper(ranks, kStop);
          for (int i = 0; i < 30; ++i) usleep(10'000);
        };
        const auto id = self.IdOf();
        stop();
        Comm comm, child;
        ASSERT_TRUE(Ok(tuttiCommInitRank(comm.address(), self.size(), id, self.rank())));
        stop();
        ASSERT_TRUE(Ok(tuttiCommSplit(comm, 0, self.rank(), child.address(), nullptr)));
        self.Meet();
      },
      options());
}

}  // namespace
}  // namespace tutti::testing
