// Concurrent calls on one communicator: one thread closes it while another uses it, waits for it, or creates it.
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

#include "testing/ranks.h"
#include "testing/surroundings.h"

namespace tutti::testing {
namespace {

constexpr auto kF = tuttiFloat32;

// Two ranks of this process. Rank 1 never starts an operation, so rank 0's operations never end.
struct Pair {
  std::array<tuttiComm_t, 2> comms{};
  float in = 1, out = 0;

  Pair() { EXPECT_TRUE(Ok(tuttiCommInitAll(comms.data(), 2, nullptr))); }
  tuttiComm_t first() const { return comms[0]; }
  tuttiResult_t Stuck(tuttiStream_t stream) { return tuttiAllReduce(&in, &out, 1, kF, tuttiSum, first(), stream); }
};

tuttiStream_t NewStream() {
  tuttiStream_t stream = nullptr;
  EXPECT_TRUE(Ok(tuttiStreamCreate(&stream)));
  return stream;
}

bool IsGone(tuttiResult_t result) {
  return result == tuttiInvalidArgument &&
         std::string(tuttiGetLastError(nullptr)).find("destroyed or aborted") != std::string::npos;
}

// A watchdog aborts while one thread destroys, finalizes or aborts, and another waits for an operation on a stream.
TEST(Lifecycle, OnlyOneOfThoseThatCloseItFrees) {
  for (const auto closes : {tuttiCommDestroy, tuttiCommFinalize, tuttiCommAbort}) {
    RunAlone([&] {
      auto* const stream = NewStream();
      for (int round = 0; round < Rounds(30); ++round) {
        Pair pair;
        ASSERT_TRUE(Ok(pair.Stuck(stream)));
        auto first = tuttiNumResults;
        bool first_gone = false;
        std::thread other([&] {
          first = closes(pair.first());
          first_gone = IsGone(first);
        });
        usleep(round % 3 * 500);
        const auto aborted = tuttiCommAbort(pair.first());
        const bool abort_gone = IsGone(aborted);
        other.join();
        EXPECT_TRUE(first == tuttiSuccess || first_gone) << first;
        EXPECT_TRUE(aborted == tuttiSuccess || abort_gone) << aborted;
        EXPECT_TRUE(first == tuttiSuccess || aborted == tuttiSuccess) << "nobody closed it";
        int rank = -1;
        EXPECT_TRUE(Fails(tuttiCommUserRank(pair.first(), &rank), tuttiInvalidArgument, {"destroyed or aborted"}));
        EXPECT_TRUE(Fails(tuttiCommDestroy(pair.first()), tuttiInvalidArgument, {"destroyed or aborted"}));
        EXPECT_TRUE(Ok(tuttiCommAbort(pair.comms[1])));
        EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiRemoteError);
      }
      EXPECT_TRUE(Ok(tuttiStreamDestroy(stream)));
    });
  }
}

TEST(Lifecycle, DestroyWaitsForACallInAnotherThread) {
  RunAlone([] {
    for (int round = 0; round < 20; ++round) {
      Pair pair;
      std::atomic<bool> inside{false}, returned{false};
      std::thread call([&] {
        inside = true;
        EXPECT_TRUE(Ok(pair.Stuck(nullptr)));
        returned = true;
      });
      while (!inside) usleep(100);
      usleep(2000);
      std::thread peer([&] {
        usleep(5000);
        float in = 1, out = 0;
        EXPECT_TRUE(Ok(tuttiAllReduce(&in, &out, 1, kF, tuttiSum, pair.comms[1], nullptr)));
      });
      EXPECT_TRUE(Ok(tuttiCommDestroy(pair.first())));
      call.join();
      peer.join();
      EXPECT_EQ(pair.out, 2);
      EXPECT_TRUE(Ok(tuttiCommDestroy(pair.comms[1])));
    }
  });
}

TEST(Lifecycle, WhileDestroyWaitsGettersStillAnswer) {
  RunAlone([] {
    auto* const stream = NewStream();
    Pair pair;
    ASSERT_TRUE(Ok(pair.Stuck(stream)));
    std::thread destroys([&] { EXPECT_TRUE(IsGone(tuttiCommDestroy(pair.first()))); });
    float value = 1;
    // Repeats until Destroy has started.
    while (tuttiAllReduce(&value, &value, 1, kF, tuttiSum, pair.first(), stream) == tuttiSuccess) usleep(1000);
    EXPECT_NE(std::string(tuttiGetLastError(nullptr)).find("finalized"), std::string::npos);
    int rank = -1;
    auto state = tuttiNumResults;
    EXPECT_TRUE(Ok(tuttiCommUserRank(pair.first(), &rank)));
    EXPECT_TRUE(Ok(tuttiCommGetAsyncError(pair.first(), &state)));
    EXPECT_TRUE(Ok(tuttiCommAbort(pair.first())));
    destroys.join();
    EXPECT_TRUE(Ok(tuttiCommAbort(pair.comms[1])));
  });
}

// Other threads see the handle at once. Enough other communicators follow to push it out of the quarantine.
TEST(Lifecycle, AbortWaitsForABlockingJoinSlow) {
  RunAlone([] {
    for (int round = 0; round < 5; ++round) {
      tuttiUniqueId id;
      ASSERT_TRUE(Ok(tuttiGetUniqueId(&id)));
      std::atomic<tuttiComm_t> shown{nullptr};
      tuttiComm_t comm = nullptr;
      std::thread joins([&] {
        std::thread watches([&] {
          tuttiComm_t seen = nullptr;
          while (seen == nullptr) {
            seen = __atomic_load_n(&comm, __ATOMIC_ACQUIRE);
            usleep(100);
          }
          shown = seen;
        });
        EXPECT_TRUE(Fails(tuttiCommInitRank(&comm, 2, id, 0), tuttiInvalidUsage, {"aborted"}));
        watches.join();
      });
      while (shown == nullptr) usleep(100);
      usleep(static_cast<useconds_t>(round) * 20'000);
      EXPECT_TRUE(Ok(tuttiCommAbort(shown)));
      joins.join();
      EXPECT_EQ(comm, nullptr);
    }
    for (int i = 0; i < 1100; ++i) {
      tuttiComm_t comm = nullptr;
      ASSERT_TRUE(Ok(tuttiCommInitAll(&comm, 1, nullptr)));
      ASSERT_TRUE(Ok(tuttiCommDestroy(comm)));
    }
  });
}

// The earlier operation ends only by its own timeout. All operations share one stream or one group.
TEST(Lifecycle, AbortDoesNotWaitForOtherCommunicators) {
  for (const int way : {0, 1, 2, 3}) {
    RunAlone([=] {
      Pair ahead, mine;
      auto* const one = NewStream();
      auto* const two = NewStream();
      std::thread waits;
      if (way == 0) {
        ASSERT_TRUE(Ok(ahead.Stuck(one)));
        ASSERT_TRUE(Ok(mine.Stuck(one)));
      } else if (way == 1) {  // a running group
        waits = std::thread([&] {
          EXPECT_TRUE(Ok(tuttiGroupStart()));
          EXPECT_TRUE(Ok(ahead.Stuck(nullptr)));
          EXPECT_TRUE(Ok(mine.Stuck(nullptr)));
          EXPECT_EQ(tuttiGroupEnd(), tuttiRemoteError);
        });
        usleep(50'000);
      } else if (way == 2) {  // a group that only one of its streams has reached
        ASSERT_TRUE(Ok(ahead.Stuck(two)));
        ASSERT_TRUE(Ok(tuttiGroupStart()));
        ASSERT_TRUE(Ok(mine.Stuck(one)));
        ASSERT_TRUE(Ok(ahead.Stuck(two)));
        ASSERT_TRUE(Ok(tuttiGroupEnd()));
      } else {  // a caller whose part of the group waits behind a stream
        waits = std::thread([&] {
          EXPECT_TRUE(Ok(ahead.Stuck(one)));
          EXPECT_TRUE(Ok(tuttiGroupStart()));
          EXPECT_TRUE(Ok(ahead.Stuck(one)));
          EXPECT_TRUE(Ok(mine.Stuck(nullptr)));
          EXPECT_EQ(tuttiGroupEnd(), tuttiRemoteError);
        });
        usleep(50'000);
      }
      EXPECT_TRUE(Ok(tuttiCommAbort(mine.first())));
      if (way == 2) {
        EXPECT_EQ(tuttiStreamSynchronize(one), tuttiRemoteError) << "its part of the group is void";
      }
      auto state = tuttiNumResults;
      EXPECT_TRUE(Ok(tuttiCommGetAsyncError(ahead.first(), &state)));
      EXPECT_EQ(state, tuttiSuccess) << "the other one's operation still waits";
      EXPECT_TRUE(Ok(tuttiCommAbort(ahead.first())));
      if (waits.joinable()) waits.join();
      for (auto* stream : {one, two}) EXPECT_TRUE(Ok(tuttiStreamDestroy(stream)));
      for (auto* comm : {ahead.comms[1], mine.comms[1]}) EXPECT_TRUE(Ok(tuttiCommAbort(comm)));
    });
  }
}

TEST(Lifecycle, AnAbortedCommunicatorsQueuedCallsLeaveTheOthersBe) {
  RunAlone([] {
    Pair ahead;
    std::array<tuttiComm_t, 2> alone{};
    for (auto& comm : alone) ASSERT_TRUE(Ok(tuttiCommInitAll(&comm, 1, nullptr)));
    auto* const stream = NewStream();
    ASSERT_TRUE(Ok(ahead.Stuck(stream)));
    std::array<float, 2> in{1, 2}, out{};
    ASSERT_TRUE(Ok(tuttiGroupStart()));
    for (std::size_t i : {0, 1}) ASSERT_TRUE(Ok(tuttiAllReduce(&in[i], &out[i], 1, kF, tuttiSum, alone[i], stream)));
    ASSERT_TRUE(Ok(tuttiGroupEnd()));
    EXPECT_TRUE(Ok(tuttiCommAbort(alone[0])));
    EXPECT_TRUE(Ok(tuttiCommAbort(ahead.first())));
    EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiRemoteError);
    EXPECT_EQ(out[0], 0);
    EXPECT_EQ(out[1], 2);
    EXPECT_TRUE(Ok(tuttiCommDestroy(alone[1])));
    EXPECT_TRUE(Ok(tuttiCommAbort(ahead.comms[1])));
    EXPECT_TRUE(Ok(tuttiStreamDestroy(stream)));
  });
}

TEST(Lifecycle, TheLastOperationIsDescribedWhenItsPlanIsForgotten) {
  RunAlone([] {
    tuttiComm_t comm = nullptr;
    ASSERT_TRUE(Ok(tuttiCommInitAll(&comm, 1, nullptr)));
    std::vector<float> in(600), out(600);
    for (std::size_t count = 1; count <= 512; ++count) {
      ASSERT_TRUE(Ok(tuttiAllReduce(in.data(), out.data(), count, kF, tuttiSum, comm, nullptr)));
    }
    std::array<char, 400> before{}, after{};
    ASSERT_TRUE(Ok(tuttiCommDescribeLastOperation(comm, before.data(), before.size())));
    // The plan cache is full and evicts an entry, but a message to the rank itself needs no plan.
    ASSERT_TRUE(Ok(tuttiGroupStart()));
    ASSERT_TRUE(Ok(tuttiSend(in.data(), 4, kF, 0, comm, nullptr)));
    ASSERT_TRUE(Ok(tuttiRecv(out.data(), 4, kF, 0, comm, nullptr)));
    ASSERT_TRUE(Ok(tuttiGroupEnd()));
    ASSERT_TRUE(Ok(tuttiCommDescribeLastOperation(comm, after.data(), after.size())));
    EXPECT_STREQ(before.data(), after.data());
    EXPECT_NE(std::string(after.data()).find("count=512"), std::string::npos) << after.data();
    EXPECT_TRUE(Ok(tuttiCommDestroy(comm)));
  });
}

TEST(Lifecycle, DestroyedBeforeItsGroupMadeIt) {
  RunAlone([] {
    tuttiUniqueId id;
    ASSERT_TRUE(Ok(tuttiGetUniqueId(&id)));
    tuttiComm_t comm = nullptr, handle = nullptr;
    ASSERT_TRUE(Ok(tuttiGroupStart()));
    ASSERT_TRUE(Ok(tuttiCommInitRank(&comm, 1, id, 0)));
    handle = comm;
    EXPECT_TRUE(Ok(tuttiCommDestroy(handle)));
    EXPECT_TRUE(Fails(tuttiGroupEnd(), tuttiInvalidArgument, {"destroyed or aborted"}));
    EXPECT_EQ(comm, nullptr);
    EXPECT_TRUE(Fails(tuttiCommDestroy(handle), tuttiInvalidArgument, {"destroyed or aborted"}));
  });
}

TEST(Lifecycle, OfAChildNobodyKnowsTheSizeBeforeItIsMade) {
  RunAlone([] {
    Pair parents;
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.blocking = 0;
    tuttiComm_t child = nullptr;
    int number = 0;
    ASSERT_EQ(tuttiCommSplit(parents.first(), 0, 0, &child, &config), tuttiInProgress);
    EXPECT_TRUE(Fails(tuttiCommCount(child, &number), tuttiInvalidUsage, {"still being made"}));
    EXPECT_TRUE(Fails(tuttiCommUserRank(child, &number), tuttiInvalidUsage, {"still being made"}));
    EXPECT_TRUE(Ok(tuttiCommAbort(child)));
    for (auto* comm : parents.comms) EXPECT_TRUE(Ok(tuttiCommAbort(comm)));
  });
}

// A group's threads or background threads create the children. Each rank's child must meet the matching children.
TEST(Lifecycle, SplitsOfOneParentKeepTheirOrder) {
  for (const bool blocking : {true, false}) {
    RunRanks(2, [=](Rank& self) {
      const auto comm = self.Join();
      tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
      config.blocking = blocking ? 1 : 0;
      for (int round = 0; round < Rounds(10); ++round) {
        std::array<tuttiComm_t, 4> parts{};
        ASSERT_TRUE(Ok(tuttiGroupStart()));
        // A child of both ranks, or one for each rank alone.
        for (int i = 0; i < 4; ++i) {
          const int color = i % 2 == 0 ? 0 : self.rank();
          ASSERT_TRUE(Ok(tuttiCommSplit(comm, color, 0, &parts[static_cast<std::size_t>(i)], &config)));
        }
        EXPECT_EQ(tuttiGroupEnd(), blocking ? tuttiSuccess : tuttiInProgress);
        for (std::size_t i = 0; i < 4; ++i) {
          ASSERT_NE(parts[i], nullptr);
          EXPECT_EQ(Await(parts[i]), tuttiSuccess);
          EXPECT_EQ(SizeOf(parts[i]), i % 2 == 0 ? 2 : 1) << i;
          EXPECT_TRUE(Ok(tuttiCommDestroy(parts[i])));
        }
      }
    });
  }
}

TEST(Lifecycle, GroupedJoinsThatFailSayWhy) {
  RunAlone([] {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.initTimeoutMs = 300;
    tuttiUniqueId id;
    ASSERT_TRUE(Ok(tuttiGetUniqueId(&id)));
    std::array<tuttiComm_t, 2> comms{};
    ASSERT_TRUE(Ok(tuttiGroupStart()));
    for (std::size_t r : {0, 1}) {
      ASSERT_TRUE(Ok(tuttiCommInitRankConfig(&comms[r], 3, id, static_cast<int>(r), &config)));
    }
    const auto result = tuttiGroupEnd();
    EXPECT_TRUE(result == tuttiTimeoutError || result == tuttiRemoteError) << result;
    EXPECT_NE(std::string(tuttiGetLastError(nullptr)).find("rank"), std::string::npos) << tuttiGetLastError(nullptr);
    for (auto* comm : comms) EXPECT_EQ(comm, nullptr);
  });
}

TEST(Lifecycle, AFailedInitAllSaysWhy) {
  RunAlone(
      [] {
        std::array<tuttiComm_t, 3> comms{};
        EXPECT_TRUE(Fails(tuttiCommInitAll(comms.data(), 3, nullptr), tuttiInvalidArgument, {"no such thing"}));
      },
      {.environment = {{"TUTTI_ALGO", "no such thing"}}});
}

TEST(Lifecycle, WithoutThreadsAJoinFailsAndLeavesNothing) {
  if (const auto why = WhyEmulated("it looks for room for stacks of 64 TiB for minutes"); !why.empty()) {
    GTEST_SKIP() << why;
  }
  for (const int way : {0, 1, 2}) {
    RunAlone([=] {
      tuttiUniqueId id;
      ASSERT_TRUE(Ok(tuttiGetUniqueId(&id)));
      // From now on, no thread can allocate its stack.
      pthread_attr_t attributes;
      ASSERT_EQ(pthread_attr_init(&attributes), 0);
      ASSERT_EQ(pthread_attr_setstacksize(&attributes, std::size_t{1} << 46), 0);
      ASSERT_EQ(pthread_setattr_default_np(&attributes), 0);
      tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
      std::array<tuttiComm_t, 2> comms{};
      if (way == 0) {  // a group
        ASSERT_TRUE(Ok(tuttiGroupStart()));
        for (int r : {0, 1}) ASSERT_TRUE(Ok(tuttiCommInitRank(&comms[static_cast<std::size_t>(r)], 2, id, r)));
        EXPECT_TRUE(Fails(tuttiGroupEnd(), tuttiSystemError, {"thread"}));
      } else if (way == 1) {  // in the background
        config.blocking = 0;
        EXPECT_TRUE(Fails(tuttiCommInitRankConfig(comms.data(), 2, id, 0, &config), tuttiSystemError));
      } else {  // with helper threads
        config.threads = 3;
        EXPECT_TRUE(Fails(tuttiCommInitRankConfig(comms.data(), 1, id, 0, &config), tuttiSystemError));
      }
      for (auto* comm : comms) EXPECT_EQ(comm, nullptr);
    });
  }
}

TEST(Lifecycle, StreamsAreDestroyedOnce) {
  RunAlone([] {
    Pair pair;
    for (int round = 0; round < 200; ++round) {
      auto* const stream = NewStream();
      std::atomic<int> destroyed{0};
      const auto destroy = [&] {
        const auto result = tuttiStreamDestroy(stream);
        if (result == tuttiSuccess) {
          ++destroyed;
        } else {
          EXPECT_TRUE(Fails(result, tuttiInvalidArgument, {"has been destroyed"}));
        }
      };
      const auto use = [&](auto call) {
        for (int i = 0; i < 20; ++i) {
          const auto result = call();
          if (result != tuttiSuccess && result != tuttiInProgress) {
            EXPECT_TRUE(Fails(result, tuttiInvalidArgument, {"has been destroyed"}));
          }
        }
      };
      float value = 1;
      tuttiComm_t alone = nullptr;
      if (round % 20 == 0) {
        ASSERT_TRUE(Ok(tuttiCommInitAll(&alone, 1, nullptr)));
      }
      std::thread one(destroy), two(destroy), three([&] { use([&] { return tuttiStreamSynchronize(stream); }); }),
          four([&] {
            if (alone == nullptr) return;
            use([&] { return tuttiAllReduce(&value, &value, 1, kF, tuttiSum, alone, stream); });
          });
      for (auto* thread : {&one, &two, &three, &four}) thread->join();
      EXPECT_EQ(destroyed, 1);
      if (alone != nullptr) {
        EXPECT_TRUE(Ok(tuttiCommDestroy(alone)));
      }
    }
  });
}

// Two threads and four communicators. Only the streams are shared.
TEST(Lifecycle, GroupsOverTheSameStreamsCannotBlockEachOther) {
  RunAlone([] {
    auto* const a = NewStream();
    auto* const b = NewStream();
    std::array<tuttiComm_t, 4> comms{};
    for (auto& comm : comms) ASSERT_TRUE(Ok(tuttiCommInitAll(&comm, 1, nullptr)));
    const auto work = [&](std::size_t which) {
      std::array<float, 2> in{1, 2}, out{};
      for (int round = 0; round < 3000; ++round) {
        EXPECT_TRUE(Ok(tuttiGroupStart()));
        EXPECT_TRUE(Ok(tuttiAllReduce(&in[0], &out[0], 1, kF, tuttiSum, comms[2 * which], a)));
        EXPECT_TRUE(Ok(tuttiAllReduce(&in[1], &out[1], 1, kF, tuttiSum, comms[2 * which + 1], b)));
        EXPECT_TRUE(Ok(tuttiGroupEnd()));
        EXPECT_TRUE(Ok(tuttiStreamSynchronize(which == 0 ? a : b)));
      }
    };
    std::thread other(work, 1);
    work(0);
    other.join();
    for (auto* stream : {a, b}) EXPECT_TRUE(Ok(tuttiStreamDestroy(stream)));
    for (auto* comm : comms) EXPECT_TRUE(Ok(tuttiCommDestroy(comm)));
  });
}

}  // namespace
}  // namespace tutti::testing
