// Ranks that never join, leave, or abort; and communicators that are used after their end.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "testing/ranks.h"
#include "testing/surroundings.h"

namespace tutti::testing {
namespace {

tuttiConfig_t Impatient(int init_ms, int operation_ms) {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.initTimeoutMs = init_ms;
  config.operationTimeoutMs = operation_ms;
  return config;
}

void Print(const std::vector<Outcome>& outcomes) {
  for (const auto& outcome : outcomes) {
    for (const auto& note : outcome.notes) fmt::print("  {}\n", note);
  }
}

TEST(Missing, AtInit) {
  Print(RunRanks(3, [](Rank& self) {
    auto config = Impatient(500, 500);
    Comm comm;
    const auto id = self.IdOf();
    if (self.rank() != 2) {
      const auto result = tuttiCommInitRankConfig(comm.address(), 3, id, self.rank(), &config);
      EXPECT_EQ(static_cast<tuttiComm_t>(comm), nullptr);
      self.Note(tuttiGetLastError(nullptr));
      EXPECT_TRUE(result == tuttiTimeoutError || result == tuttiRemoteError) << result;
      EXPECT_NE(std::string(tuttiGetLastError(nullptr)).find("2"), std::string::npos) << tuttiGetLastError(nullptr);
    }
    self.Meet();
  }));
}

TEST(Missing, InAnOperation) {
  Print(RunRanks(3, [](Rank& self) {
    auto config = Impatient(10'000, 300);
    config.name = "training";
    auto comm = self.Join(&config);
    std::vector<float> data(1000, 1);
    ASSERT_TRUE(Ok(AllReduce(comm, data)));
    if (self.rank() != 1) {
      const auto result = AllReduce(comm, data);
      self.Note(tuttiGetLastError(comm));
      EXPECT_TRUE(Fails(result, tuttiTimeoutError,
                        {"which waits for rank 1 ", "all_reduce(count=1000", "\"training\"", "operation 2"}));
    }
    self.Meet();
  }));
}

// Without a timeout an operation waits as long as it takes, and a dead rank is still found.
TEST(Missing, ForEverOrUntilARankDies) {
  RunRanks(3,
           [](Rank& self) {
             auto config = Impatient(0, 0);
             auto comm = self.Join(&config);
             std::vector<float> data(1000, 1);
             if (self.rank() == 1) usleep(700'000);
             ASSERT_TRUE(Ok(AllReduce(comm, data)));
             EXPECT_EQ(data[0], 3);
             self.Meet();  // a rank that is still in the first operation may hear of the others' failure in the second
             if (self.rank() == 1) KillThisProcessAfter(std::chrono::milliseconds(0));
             EXPECT_TRUE(Fails(AllReduce(comm, data), tuttiRemoteError, {"rank 1 "}));
           },
           {.environment = {{"TUTTI_TIMEOUT_MS", "300"}}, .may_die = {1}});
}

TEST(Missing, InAReceive) {
  Print(RunRanks(2, [](Rank& self) {
    auto config = Impatient(10'000, 300);
    auto comm = self.Join(&config);
    std::vector<float> data(10);
    if (self.rank() == 0) {
      const auto result = tuttiRecv(data.data(), 10, tuttiFloat32, 1, comm, nullptr);
      self.Note(tuttiGetLastError(comm));
      EXPECT_TRUE(Fails(result, tuttiTimeoutError, {"rank 1 ", "receive(count=10"}));
    }
    self.Meet();
  }));
}

TEST(Leaving, AfterOnesPartIsNoFailure) {
  // Rank 0 contributes and leaves, by Destroy or by process exit; the others arrive later and must find all the data.
  for (const bool destroys : {true, false}) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{1000}}) {
      RunRanks(3, [&](Rank& self) {
        auto comm = self.Join();
        std::vector<float> data(count, static_cast<float>(self.rank() + 1));
        if (self.rank() != 0) usleep(20'000);
        ASSERT_TRUE(Ok(tuttiBroadcast(data.data(), data.data(), count, tuttiFloat32, 0, comm, nullptr)));
        EXPECT_EQ(data.back(), 1);
        if (self.rank() == 0) {
          if (!destroys) self.ExitWithLive(std::move(comm));
          return;
        }
        if (self.rank() == 1) usleep(60'000);
        std::vector<float> more(count, 2);
        // The two remaining ranks can still reach each other.
        if (self.rank() == 1) {
          EXPECT_TRUE(Ok(tuttiSend(more.data(), count, tuttiFloat32, 2, comm, nullptr)));
        }
        if (self.rank() == 2) {
          EXPECT_TRUE(Ok(tuttiRecv(data.data(), count, tuttiFloat32, 1, comm, nullptr)));
        }
        if (self.rank() == 2) {
          EXPECT_EQ(data.back(), 2);
        }
      });
    }
  }
}

TEST(Leaving, BeforeAnOperationIsAFailure) {
  Print(RunRanks(3, [](Rank& self) {
    auto comm = self.Join();
    std::vector<float> data(100, 1);
    ASSERT_TRUE(Ok(AllReduce(comm, data)));
    if (self.rank() == 2) return;
    const auto result = AllReduce(comm, data);
    self.Note(tuttiGetLastError(comm));
    EXPECT_TRUE(Fails(result, tuttiRemoteError, {"rank 2 ", "all_reduce"}));
  }));
}

// Both kinds of ranks; rank 0 aborts from another thread while it and rank 2 wait for rank 1. The algorithm makes every
// rank wait for rank 0; across hosts, a rank learns of an abort from the rank it waits for (docs/faults.md).
TEST(Abort, EndsEverybodysWaits) {
  for (const bool threads : {false, true}) {
    Print(RunRanks(3,
                   [](Rank& self) {
                     auto comm = self.Join();
                     std::vector<float> data(1000, 1);
                     ASSERT_TRUE(Ok(AllReduce(comm, data)));
                     if (self.rank() == 0) {
                       const tuttiComm_t handle = comm.Release();
                       tuttiResult_t waiting = tuttiSuccess;
                       std::thread waiter([&] { waiting = AllReduce(handle, data); });
                       usleep(50'000);
                       EXPECT_TRUE(Ok(tuttiCommAbort(handle)));
                       waiter.join();
                       EXPECT_EQ(waiting, tuttiRemoteError);
                       EXPECT_TRUE(Fails(AllReduce(handle, data), tuttiInvalidArgument, {"comm"}));
                     } else if (self.rank() == 2) {
                       const auto result = AllReduce(comm, data);
                       self.Note(tuttiGetLastError(comm));
                       EXPECT_TRUE(Fails(result, tuttiRemoteError, {"rank 0 ", "abort"}));
                     }
                     self.Meet();
                     // The operation may already have had all it needed from rank 0; the next one has not.
                     if (self.rank() == 1) {
                       auto result = AllReduce(comm, data);
                       if (result == tuttiSuccess) result = AllReduce(comm, data);
                       EXPECT_TRUE(Fails(result, tuttiRemoteError, {"rank 0 ", "abort"}));
                     }
                   },
                   {.threads = threads, .environment = {{"TUTTI_ALGO", "direct"}}}));
  }
}

// As with NCCL, an abort reaches the ranks that wait for the one that aborts: messages between the others go on.
TEST(Abort, ReachesThoseWhoWaitForIt) {
  Print(RunRanks(3, [](Rank& self) {
    auto comm = self.Join();
    std::vector<float> data(1000, 1);
    ASSERT_TRUE(Ok(AllReduce(comm, data)));
    if (self.rank() == 0) {
      EXPECT_TRUE(Ok(tuttiCommAbort(comm.Release())));
      self.Meet();
      return;
    }
    self.Meet();
    const int peer = 3 - self.rank();
    for (int i = 0; i < 20; ++i) {
      usleep(self.rank() * 10'000);  // so that one of them waits, and looks for reasons
      std::vector<float> got(10), sent(10, static_cast<float>(i));
      ASSERT_TRUE(Ok(tuttiGroupStart()));
      EXPECT_TRUE(Ok(tuttiSend(sent.data(), sent.size(), tuttiFloat32, peer, comm, nullptr)));
      EXPECT_TRUE(Ok(tuttiRecv(got.data(), got.size(), tuttiFloat32, peer, comm, nullptr)));
      ASSERT_TRUE(Ok(tuttiGroupEnd())) << i;
      EXPECT_EQ(got, sent);
    }
    EXPECT_TRUE(Fails(AllReduce(comm, data), tuttiRemoteError, {"rank 0 ", "aborted"}));
  }));
}

TEST(Abort, AgainAndAgainFromAnotherThread) {
  // Abort must work at whatever point of a call the other thread has reached.
  RunRanks(2, [](Rank& self) {
    for (int round = 0; round < 4; ++round) {
      const int which = round;
      auto comm = self.Join(nullptr, which);
      ASSERT_NE(static_cast<tuttiComm_t>(comm), nullptr);
      const tuttiComm_t handle = comm.Release();
      std::thread worker([&] {
        std::vector<float> data(16, 1);
        while (AllReduce(handle, data) == tuttiSuccess) data.assign(16, 1);
      });
      usleep(static_cast<useconds_t>(500 + 700 * round + 100 * self.rank()));
      EXPECT_TRUE(Ok(tuttiCommAbort(handle)));
      worker.join();
    }
  });
}

TEST(Abort, WhileJoining) {
  RunRanks(2, [](Rank& self) {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.blocking = 0;
    const auto id = self.IdOf();
    if (self.rank() == 0) {
      tuttiComm_t comm = nullptr;
      EXPECT_EQ(tuttiCommInitRankConfig(&comm, 2, id, 0, &config), tuttiInProgress);
      usleep(20'000);
      tuttiResult_t state = tuttiSuccess;
      EXPECT_TRUE(Ok(tuttiCommGetAsyncError(comm, &state)));
      EXPECT_EQ(state, tuttiInProgress);
      EXPECT_TRUE(Ok(tuttiCommAbort(comm)));
    }
    self.Meet();
  });
}

// A communicator that Split is still making: while it waits for the parent's ranks, and for the new one's.
TEST(Abort, WhileSplitting) {
  for (const bool others_come : {false, true}) {
    SCOPED_TRACE(others_come ? "the others come" : "the others do not come");
    RunRanks(3, [&](Rank& self) {
      tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
      config.blocking = 0;
      const auto world = self.Join();
      self.Meet();
      if (self.rank() == 0 || others_come) {
        tuttiComm_t part = nullptr;
        ASSERT_EQ(tuttiCommSplit(world, 0, 0, &part, &config), tuttiInProgress);
        usleep(static_cast<useconds_t>(others_come ? 1'000 * self.rank() : 20'000));
        EXPECT_TRUE(Ok(tuttiCommAbort(part)));
      }
      self.Meet();
    });
  }
}

TEST(Ended, CommunicatorsAreRefused) {
  RunRanks(2, [](Rank& self) {
    auto comm = self.Join();
    std::vector<float> data(8, 1);
    ASSERT_TRUE(Ok(AllReduce(comm, data)));
    EXPECT_TRUE(Ok(tuttiCommFinalize(comm)));
    EXPECT_TRUE(Fails(AllReduce(comm, data), tuttiInvalidUsage, {"finalized"}));
    int number = -1;
    EXPECT_TRUE(Ok(tuttiCommCount(comm, &number)));
    EXPECT_EQ(number, 2);
    EXPECT_TRUE(Ok(tuttiCommUserRank(comm, &number)));
    EXPECT_EQ(number, self.rank());
    tuttiCounters_t counters{};
    counters.size = sizeof counters;
    EXPECT_TRUE(Ok(tuttiCommGetCounters(comm, &counters))) << "a getter after Finalize";
    EXPECT_EQ(counters.operations, 1u);
    const tuttiComm_t handle = comm;
    comm.Destroy();
    EXPECT_TRUE(Fails(AllReduce(handle, data), tuttiInvalidArgument, {"comm", "destroyed"}));
    EXPECT_TRUE(Fails(tuttiCommDestroy(handle), tuttiInvalidArgument, {"comm", "destroyed"}));
    EXPECT_TRUE(Fails(tuttiCommCount(handle, &number), tuttiInvalidArgument, {"comm", "destroyed"}));
  });
}

TEST(Ended, GettersWorkOnADeadCommunicator) {
  RunRanks(2, [](Rank& self) {
    auto config = Impatient(10'000, 200);
    auto comm = self.Join(&config);
    std::vector<float> data(8, 1);
    ASSERT_TRUE(Ok(AllReduce(comm, data)));
    if (self.rank() == 0) {
      EXPECT_TRUE(Fails(AllReduce(comm, data), tuttiTimeoutError));
      tuttiCounters_t counters{};
      counters.size = sizeof counters;
      EXPECT_TRUE(Ok(tuttiCommGetCounters(comm, &counters)));
      char text[200] = "";
      EXPECT_TRUE(Ok(tuttiCommDescribeLastOperation(comm, text, sizeof text)));
      EXPECT_NE(std::string(text).find("all_reduce"), std::string::npos) << text;
      tuttiAlgorithm_t algorithm = tuttiAlgorithmNone;
      EXPECT_TRUE(Ok(tuttiCommGetLastAlgorithm(comm, &algorithm)));
    }
    self.Meet();
  });
}

TEST(Fork, AChildMustMakeItsOwn) {
  if (const auto why = WhyNoForkBesideThreads(); !why.empty()) GTEST_SKIP() << why;
  RunRanks(2, [](Rank& self) {
    auto comm = self.Join();
    std::vector<float> data(8, 1);
    ASSERT_TRUE(Ok(AllReduce(comm, data)));
    const pid_t child = fork();
    if (child == 0) {
      // A forked child's expectations do not reach the parent, so its exit status reports them.
      const std::array outcomes = {Fails(AllReduce(comm, data), tuttiInvalidUsage, {"fork"}),
                                   Fails(tuttiCommDestroy(comm), tuttiInvalidUsage, {"fork"}),
                                   Fails(tuttiCommAbort(comm), tuttiInvalidUsage, {"fork"})};
      tuttiComm_t own = nullptr;
      const std::array own_outcomes = {Ok(tuttiCommInitAll(&own, 1, nullptr)), Ok(AllReduce(own, data)),
                                       Ok(tuttiCommDestroy(own))};
      int status = 0;
      for (const auto& outcome : outcomes) status += outcome ? 0 : 1;
      for (const auto& outcome : own_outcomes) status += outcome ? 0 : 16;
      for (const auto& outcome : own_outcomes) fmt::print(stderr, "{}", outcome.message());
      for (const auto& outcome : outcomes) fmt::print(stderr, "{}", outcome.message());
      _exit(status);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << "in the child";
    ASSERT_TRUE(Ok(AllReduce(comm, data))) << "the child's end is not the parent's";
  });
}

}  // namespace
}  // namespace tutti::testing
