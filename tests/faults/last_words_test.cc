// A rank ends because another one has ended: ranks of other hosts that miss it learn of the first end.
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "testing/ranks.h"

namespace tutti::testing {
namespace {

// Ranks 0 and 1 are on one host, 2 and 3 on the other.
const RunOptions kTwoHosts{
    .limit = std::chrono::seconds(30), .environment = {{"TUTTI_VIRTUAL_HOSTS", "2"}}, .may_die = {2, 3}};

void Await(const std::atomic<std::int64_t>& number) {
  while (number.load() == 0) usleep(1000);
}

// One rank's view of the test.
struct View {
  explicit View(Rank& self) : comm(self.Join()), gone(self.board().numbers[0]), done(self.board().numbers[1]) {}

  tuttiResult_t Receive(int from) const {
    float data = 0;
    return tuttiRecv(&data, 1, tuttiFloat32, from, comm, nullptr);
  }

  const Comm comm;
  std::atomic<std::int64_t>& gone;  // set by rank 3
  std::atomic<std::int64_t>& done;  // set by rank 0
};

// Rank 0 was never connected to one of the two dead ranks.
TEST(LastWords, TheFirstDeathIsNamedWhereNobodyIsLeftToTell) {
  RunRanks(
      4,
      [](Rank& self) {
        const View view(self);
        if (self.rank() == 2) {
          usleep(100'000);
          kill(getpid(), SIGKILL);
        } else if (self.rank() == 3) {
          EXPECT_TRUE(Fails(view.Receive(2), tuttiRemoteError, {"rank 2 "}));
          view.gone = 1;
          _exit(0);
        } else if (self.rank() == 0) {
          Await(view.gone);
          EXPECT_TRUE(Fails(view.Receive(3), tuttiRemoteError, {"rank 3 ", "rank 2 "}));
          view.done = 1;
        } else {
          Await(view.done);
        }
      },
      kTwoHosts);
}

// Rank 3 fails while it waits for rank 0's call.
TEST(LastWords, ReachAPeerThatHasNotCalledYet) {
  RunRanks(
      4,
      [](Rank& self) {
        const View view(self);
        if (self.rank() == 3) {
          std::thread other([&] {
            usleep(700'000);  // by then rank 3 waits, and has not yet connected to rank 0 itself
            EXPECT_TRUE(Ok(tuttiCommRevoke(view.comm, TUTTI_REVOKE_DEFAULT)));
          });
          EXPECT_TRUE(Fails(view.Receive(0), tuttiRemoteError, {"rank 3 ", "revoked"}));
          other.join();
          view.gone = 1;
          _exit(0);
        } else if (self.rank() == 0) {
          Await(view.gone);
          EXPECT_TRUE(Fails(view.Receive(3), tuttiRemoteError, {"rank 3 ", "revoked"}));
          view.done = 1;
        } else {
          Await(view.done);
        }
      },
      kTwoHosts);
}

// The process that hosts the rendezvous ends as soon as its own rank learns that joining failed.
TEST(LastWords, TheRendezvousTellsItsOwnProcessLast) {
  constexpr int kTrials = 5;
  for (int trial = 0; trial < kTrials && !::testing::Test::HasFailure(); ++trial) {
    RunRanks(
        4,
        [](Rank& self) {
          if (self.rank() == 3) return;  // never comes
          // On one core, a rank runs as soon as the rendezvous answers it, before the next rank gets its answer.
          cpu_set_t cores;
          CPU_ZERO(&cores);
          CPU_SET(static_cast<std::size_t>(sched_getcpu()), &cores);
          if (self.rank() == 0) sched_setaffinity(0, sizeof cores, &cores);
          constexpr int kShort = 1'000, kLong = 20'000;
          tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
          config.initTimeoutMs = self.rank() == 2 ? kShort : kLong;
          tuttiComm_t comm = nullptr;
          const auto result = tuttiCommInitRankConfig(&comm, self.size(), self.IdOf(), self.rank(), &config);
          // On a busy machine rank 2 may give up before the rendezvous answers it.
          EXPECT_TRUE(Fails(result, tuttiTimeoutError, {self.rank() == 2 ? "timed out" : "rank 3 of 4 never joined"}));
          if (self.rank() == 0) _exit(0);
        },
        {.may_die = {0}});
  }
}

}  // namespace
}  // namespace tutti::testing
