// Communicators that lose ranks and go on, that are revoked, and that admit new ranks.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "testing/ranks.h"
#include "testing/surroundings.h"

namespace tutti::testing {
namespace {

// Several sizes, to cover several algorithms and wires.
void ExpectItWorks(tuttiComm_t comm) {
  const auto ranks = static_cast<float>(SizeOf(comm));
  for (const std::size_t count : {1, 1000, 300'000}) {
    std::vector<float> data(count, 1);
    ASSERT_TRUE(Ok(AllReduce(comm, data)));
    EXPECT_EQ(data.front(), ranks);
    EXPECT_EQ(data.back(), ranks);
  }
}

TEST(Shrink, OfOneThatIsWell) {
  for (const bool threads : {false, true}) {
    RunRanks(
        5,
        [](Rank& self) {
          const auto comm = self.Join();
          const std::vector<int> leavers = {3, 1};
          if (self.rank() != 1 && self.rank() != 3) {
            Comm fewer;
            ASSERT_TRUE(Ok(tuttiCommShrink(comm, leavers.data(), 2, fewer.address(), nullptr, TUTTI_SHRINK_DEFAULT)));
            EXPECT_EQ(RankIn(fewer), self.rank() / 2);
            ASSERT_EQ(SizeOf(fewer), 3);
            ExpectItWorks(fewer);
          }
          self.Meet();
          ExpectItWorks(comm);  // the parent is unchanged
        },
        {.threads = threads});
  }
}

TEST(Shrink, WithoutExclusionsIsACopy) {
  RunRanks(3, [](Rank& self) {
    const auto comm = self.Join();
    Comm copy;
    ASSERT_TRUE(Ok(tuttiCommShrink(comm, nullptr, 0, copy.address(), nullptr, TUTTI_SHRINK_DEFAULT)));
    EXPECT_EQ(RankIn(copy), self.rank());
    ExpectItWorks(copy);
  });
}

TEST(Shrink, RefusesWhatIsNoShrinking) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    tuttiComm_t fewer = nullptr;
    const auto shrink = [&](std::vector<int> ranks) {
      return tuttiCommShrink(comm, ranks.data(), static_cast<int>(ranks.size()), &fewer, nullptr, TUTTI_SHRINK_DEFAULT);
    };
    EXPECT_TRUE(Fails(shrink({self.rank()}), tuttiInvalidUsage, {"an excluded rank must not call"}));
    EXPECT_TRUE(Fails(shrink({0, 1}), tuttiInvalidArgument, {"excludeCount is 2"}));
    EXPECT_TRUE(Fails(shrink({2}), tuttiInvalidArgument, {"excludeRanks[0] is 2"}));
    EXPECT_TRUE(Fails(tuttiCommShrink(comm, nullptr, 1, &fewer, nullptr, TUTTI_SHRINK_DEFAULT), tuttiInvalidArgument,
                      {"excludeRanks"}));
    EXPECT_TRUE(Fails(tuttiCommShrink(comm, nullptr, 0, nullptr, nullptr, TUTTI_SHRINK_DEFAULT), tuttiInvalidArgument,
                      {"newcomm"}));
    EXPECT_TRUE(Fails(tuttiCommShrink(nullptr, nullptr, 0, &fewer, nullptr, TUTTI_SHRINK_DEFAULT), tuttiInvalidArgument,
                      {"comm"}));
    ExpectItWorks(comm);
  });
}

// The survivors have to find out by themselves who died.
TEST(Shrink, AfterDeathsOfAnyRanks) {
  constexpr int kRanks = 4;
  for (const std::vector<int>& victims : {std::vector{0}, {2}, {3}, {0, 1}, {1, 3}, {0, 1, 2}}) {
    SCOPED_TRACE(fmt::format("{} of them, first {}", victims.size(), victims.front()));
    RunOptions options;
    options.may_die = victims;
    RunRanks(
        kRanks,
        [&](Rank& self) {
          Comm comm = self.Join();
          ExpectItWorks(comm);
          if (std::ranges::find(victims, self.rank()) != victims.end()) kill(getpid(), SIGKILL);
          std::vector<float> data(1000, 1);
          ASSERT_TRUE(Fails(AllReduce(comm, data), tuttiRemoteError, {"rank "}));
          Comm rest;
          ASSERT_TRUE(Ok(tuttiCommShrink(comm, nullptr, 0, rest.address(), nullptr, TUTTI_SHRINK_DEFAULT)));
          comm.Destroy();
          EXPECT_EQ(SizeOf(rest), kRanks - static_cast<int>(victims.size()));
          ExpectItWorks(rest);
        },
        options);
  }
}

// Repeats until one rank is left.
TEST(Shrink, AgainAndAgain) {
  constexpr int kRanks = 5;
  RunOptions options;
  options.may_die = {0, 1, 2, 3};
  RunRanks(
      kRanks,
      [&](Rank& self) {
        Comm comm = self.Join();
        for (int size = kRanks; size > 1; --size) {
          ASSERT_EQ(SizeOf(comm), size);
          ExpectItWorks(comm);
          // Alternates between the first and the middle remaining rank, never the last.
          const int victim = size % 2 == 0 ? 0 : size / 2;
          if (RankIn(comm) == victim) kill(getpid(), SIGKILL);
          std::vector<float> data(1000, 1);
          ASSERT_NE(AllReduce(comm, data), tuttiSuccess);
          Comm rest;
          ASSERT_TRUE(Ok(tuttiCommShrink(comm, nullptr, 0, rest.address(), nullptr, TUTTI_SHRINK_DEFAULT)));
          comm = std::move(rest);
        }
        ExpectItWorks(comm);
      },
      options);
}

// A rank dies while the others shrink: they end in one communicator of the rest, or get the death as an error in it.
TEST(Shrink, WhileYetAnotherDies) {
  constexpr int kRanks = 5;
  for (int trial = 0; trial < Rounds(20); ++trial) {
    SCOPED_TRACE(fmt::format("trial {}", trial));
    const int second = trial % 4;
    RunOptions options;
    options.may_die = {second, 4};
    // A rank that waited for a dead one would outlast this test.
    options.environment = {{"TUTTI_INIT_TIMEOUT_MS", "120000"}};
    RunRanks(
        kRanks,
        [&](Rank& self) {
          Comm comm = self.Join();
          if (self.rank() == 4) kill(getpid(), SIGKILL);
          std::vector<float> data(1000, 1);
          ASSERT_NE(AllReduce(comm, data), tuttiSuccess);
          if (self.rank() == second) {
            KillThisProcessAfter(std::chrono::microseconds(std::mt19937(static_cast<unsigned>(trial))() % 8'000));
          }
          // While it lives, four ranks remain.
          const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
          while (std::chrono::steady_clock::now() < give_up) {
            Comm rest;
            const auto result = tuttiCommShrink(comm, nullptr, 0, rest.address(), nullptr, TUTTI_SHRINK_DEFAULT);
            ASSERT_EQ(result, tuttiSuccess) << tuttiGetLastError(nullptr);
            if (AllReduce(rest, data) == tuttiSuccess && SizeOf(rest) == 3) return;
            comm = std::move(rest);
          }
          ADD_FAILURE() << "no communicator of three";
        },
        options);
  }
}

TEST(Shrink, NamesWhoLivesAndDoesNotCome) {
  RunRanks(3, [](Rank& self) {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.initTimeoutMs = 1500;
    const auto comm = self.Join(&config);
    if (self.rank() != 1) {
      Comm fewer;
      EXPECT_TRUE(Fails(tuttiCommShrink(comm, nullptr, 0, fewer.address(), nullptr, TUTTI_SHRINK_DEFAULT),
                        tuttiTimeoutError, {"rank 1 (", "is alive, but has not called tuttiCommShrink"}));
      self.Note(tuttiGetLastError(nullptr));
    }
    self.Meet();
  });
}

TEST(Shrink, WithoutBlocking) {
  RunRanks(3, [](Rank& self) {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.blocking = 0;
    Comm comm;
    ASSERT_EQ(tuttiCommInitRankConfig(comm.address(), 3, self.IdOf(), self.rank(), &config), tuttiInProgress);
    ASSERT_EQ(Await(comm), tuttiSuccess);
    const int leaver = 0;
    if (self.rank() == leaver) return self.Meet();
    Comm fewer;
    ASSERT_EQ(tuttiCommShrink(comm, &leaver, 1, fewer.address(), nullptr, TUTTI_SHRINK_DEFAULT), tuttiInProgress);
    ASSERT_EQ(Await(fewer), tuttiSuccess);
    EXPECT_EQ(SizeOf(fewer), 2);
    self.Meet();
  });
}

TEST(Shrink, EndsWithAnAbort) {
  RunRanks(2, [](Rank& self) {
    Comm comm = self.Join();
    if (self.rank() == 0) {
      std::thread aborts([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        EXPECT_TRUE(Ok(tuttiCommAbort(comm)));
      });
      Comm fewer;
      EXPECT_TRUE(Fails(tuttiCommShrink(comm, nullptr, 0, fewer.address(), nullptr, TUTTI_SHRINK_DEFAULT),
                        tuttiInvalidUsage, {"aborted"}));
      aborts.join();
      comm.Release();
    }
    self.Meet();
  });
}

// A program may get its first failure from a group, which belongs to no communicator.
TEST(Revoke, IsToldOfTheCommunicatorByAGroup) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    std::vector<float> data(10, 1);
    ASSERT_TRUE(Ok(AllReduce(comm, data)));
    self.Meet();
    EXPECT_TRUE(Ok(tuttiCommRevoke(comm, TUTTI_REVOKE_DEFAULT)));
    ASSERT_TRUE(Ok(tuttiGroupStart()));
    EXPECT_TRUE(Ok(AllReduce(comm, data)));
    EXPECT_EQ(tuttiGroupEnd(), tuttiRemoteError);
    EXPECT_NE(std::string(tuttiGetLastError(comm)).find("revoked the communicator"), std::string::npos)
        << '"' << tuttiGetLastError(comm) << '"';
  });
}

TEST(Revoke, StopsWhatRunsEverywhere) {
  for (const bool threads : {false, true}) {
    RunRanks(4,
             [](Rank& self) {
               const auto comm = self.Join();
               ExpectItWorks(comm);
               std::vector<float> data(1000, 1);
               if (self.rank() == 3) {
                 std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the others wait for this rank by now
                 EXPECT_TRUE(Ok(tuttiCommRevoke(comm, TUTTI_REVOKE_DEFAULT)));
               }
               EXPECT_TRUE(Fails(AllReduce(comm, data), tuttiRemoteError, {"rank 3 (", "revoked the communicator"}));
               tuttiComm_t part = nullptr;
               EXPECT_TRUE(Fails(tuttiCommSplit(comm, 0, 0, &part, nullptr), tuttiRemoteError, {"revoked"}));
               Comm again;
               ASSERT_TRUE(Ok(tuttiCommShrink(comm, nullptr, 0, again.address(), nullptr, TUTTI_SHRINK_DEFAULT)));
               EXPECT_EQ(SizeOf(again), 4);
               ExpectItWorks(again);
             },
             {.threads = threads});
  }
}

TEST(Grow, ByThoseWhoComeWithTheId) {
  static constexpr int kOld = 3, kNew = 5;
  RunRanks(kNew, [](Rank& self) {
    // Makes the old ranks' communicator by hand, because Rank::Join is for all ranks.
    Comm comm, more;
    const auto first = self.IdOf(0), growth = self.IdOf(1);
    if (self.rank() < kOld) {
      ASSERT_TRUE(Ok(tuttiCommInitRank(comm.address(), kOld, first, self.rank())));
      const bool gives = self.rank() == 1;  // any one rank may
      ASSERT_TRUE(Ok(tuttiCommGrow(comm, kNew, gives ? &growth : nullptr, -1, more.address(), nullptr)));
      ExpectItWorks(comm);
    } else {
      ASSERT_TRUE(Ok(tuttiCommGrow(nullptr, kNew, &growth, self.rank(), more.address(), nullptr)));
    }
    EXPECT_EQ(RankIn(more), self.rank());
    EXPECT_EQ(SizeOf(more), kNew);
    ExpectItWorks(more);
  });
}

TEST(Grow, RefusesWhatIsNoGrowing) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    tuttiComm_t more = nullptr;
    EXPECT_TRUE(Fails(tuttiCommGrow(comm, 2, nullptr, -1, &more, nullptr), tuttiInvalidArgument, {"nranks is 2"}));
    EXPECT_TRUE(Fails(tuttiCommGrow(nullptr, 3, nullptr, 2, &more, nullptr), tuttiInvalidArgument, {"id is NULL"}));
    EXPECT_TRUE(Fails(tuttiCommGrow(comm, 3, nullptr, -1, &more, nullptr), tuttiInvalidUsage, {"unique id"}));
    const int nranks = 3 + self.rank();
    EXPECT_TRUE(Fails(tuttiCommGrow(comm, nranks, nullptr, -1, &more, nullptr), tuttiInvalidUsage, {"disagree"}));
    ExpectItWorks(comm);
  });
}

}  // namespace
}  // namespace tutti::testing
