// Ranks whose collectives differ although no rank has to wait for another: two roots that both send, contributions to a
// root that does not expect them. Every rank must get tuttiInvalidUsage, with both calls and both ranks. It gets that
// by its next collective that hears from all ranks, within some calls of those that do not, when the communicator is
// split or gets a window, and when it ends.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <functional>

#include "testing/ranks.h"
#include "testing/surroundings.h"

namespace tutti::testing {
namespace {

constexpr std::size_t kMost = 100'000;  // elements of the buffers
constexpr auto kF = tuttiFloat32;

struct Buffers {
  std::vector<float> send = std::vector<float>(kMost, 1), receive = std::vector<float>(kMost, 0);
};

// A call that differs from rank to rank, and ends on each rank without hearing from the others.
struct Silent {
  std::string name;
  std::function<tuttiResult_t(int rank, int size, tuttiComm_t, Buffers&)> call;
  std::vector<std::string> words;  // required in each message
};

tuttiResult_t Broadcast(int root, std::size_t count, tuttiComm_t comm, Buffers& b) {
  return tuttiBroadcast(b.send.data(), b.receive.data(), count, kF, root, comm, nullptr);
}
tuttiResult_t Gather(int root, std::size_t count, tuttiComm_t comm, Buffers& b) {
  return tuttiGather(b.send.data(), b.receive.data(), count, kF, root, comm, nullptr);
}
tuttiResult_t Reduce(int root, std::size_t count, tuttiComm_t comm, Buffers& b) {
  return tuttiReduce(b.send.data(), b.receive.data(), count, kF, tuttiSum, root, comm, nullptr);
}
tuttiResult_t Scatter(int root, std::size_t count, tuttiComm_t comm, Buffers& b) {
  return tuttiScatter(b.send.data(), b.receive.data(), count, kF, root, comm, nullptr);
}

const std::vector<Silent>& SilentCases() {
  static const std::vector<Silent> all = {
      {"broadcasts",
       [](int rank, int, tuttiComm_t comm, Buffers& b) { return Broadcast(rank, 10, comm, b); },
       {"broadcast(count=10", "root=0", "root=1"}},
      {"longer_broadcasts",
       [](int rank, int, tuttiComm_t comm, Buffers& b) { return Broadcast(rank, 300, comm, b); },
       {"broadcast(count=300", "root=0", "root=1"}},
      {"scatters",
       [](int rank, int, tuttiComm_t comm, Buffers& b) { return Scatter(rank, 10, comm, b); },
       {"scatter(count=10", "root=0", "root=1"}},
      {"reduces",
       [](int rank, int size, tuttiComm_t comm, Buffers& b) { return Reduce((rank + 1) % size, 10, comm, b); },
       {"reduce(count=10", "root=1", "root=0"}},
      {"gathers",
       [](int rank, int size, tuttiComm_t comm, Buffers& b) { return Gather((rank + 1) % size, 10, comm, b); },
       {"gather(count=10", "root=1", "root=0"}},
      {"a_broadcast_and_a_scatter",
       [](int rank, int, tuttiComm_t comm, Buffers& b) {
         return rank == 0 ? Broadcast(0, 10, comm, b) : Scatter(1, 10, comm, b);
       },
       {"broadcast(count=10", "scatter(count=10"}},
      {"a_broadcast_and_a_gather",
       [](int rank, int, tuttiComm_t comm, Buffers& b) {
         return rank == 0 ? Broadcast(0, 10, comm, b) : Gather(0, 10, comm, b);
       },
       {"broadcast(count=10", "gather(count=10"}},
      {"a_broadcast_and_an_empty_sum",
       [](int rank, int, tuttiComm_t comm, Buffers& b) {
         return rank == 0 ? Broadcast(0, 10, comm, b)
                          : tuttiAllReduce(b.send.data(), b.receive.data(), 0, kF, tuttiSum, comm, nullptr);
       },
       {"broadcast(count=10", "all_reduce(count=0"}},
      {"empty_broadcasts",
       [](int rank, int, tuttiComm_t comm, Buffers& b) { return Broadcast(rank, 0, comm, b); },
       {"broadcast(count=0", "root=0", "root=1"}},
      {"gathers_of_one_block",
       [](int rank, int, tuttiComm_t comm, Buffers& b) {
         const std::size_t counts[] = {rank == 0 ? 5U : 0U, rank == 0 ? 0U : 5U}, places[] = {0, 5};
         return tuttiAllGatherV(b.send.data(), 5, b.receive.data(), counts, places, kF, comm, nullptr);
       },
       {"all_gather_v(counts per rank", "other recvcounts"}},
  };
  return all;
}

tuttiResult_t Sum(tuttiComm_t comm, Buffers& b) {
  return tuttiAllReduce(b.send.data(), b.receive.data(), 7, kF, tuttiSum, comm, nullptr);
}

std::vector<std::string> WithRanks(std::vector<std::string> words) {
  words.insert(words.end(), {"do not match", "rank 0 ", "rank 1 "});
  return words;
}

struct Where {
  std::string name;
  RunOptions options;
};

const std::vector<Where>& Places() {
  static const std::vector<Where> all = {
      {"processes", {}},
      {"threads", {.threads = true}},
      {"hosts", {.environment = {{"TUTTI_VIRTUAL_HOSTS", "2"}}}},
      {"helpers", {.environment = {{"TUTTI_THREADS", "2"}, {"TUTTI_CHANNELS", "2"}}}},
  };
  return all;
}

// Every silent case in every place.
class Roots : public ::testing::TestWithParam<std::tuple<std::size_t, std::size_t>> {
 protected:
  const Silent& what() const { return SilentCases()[std::get<0>(GetParam())]; }
  RunOptions options(std::vector<std::pair<std::string, std::string>> more = {}) const {
    auto options = Places()[std::get<1>(GetParam())].options;
    options.environment.insert(options.environment.end(), more.begin(), more.end());
    options.limit = std::chrono::seconds(30);
    return options;
  }
  // Whether the first rank waits until the other rank, which sends nothing, also connects.
  bool first_one_waits() const { return between_hosts() && what().name == "a_broadcast_and_an_empty_sum"; }
  bool between_hosts() const { return Places()[std::get<1>(GetParam())].name == "hosts"; }
};

TEST_P(Roots, ThatDisagreeAreToldByTheNextCollective) {
  for (const int times : {1, 64}) {
    SCOPED_TRACE(times);
    RunRanks(
        2,
        [&](Rank& self) {
          const auto comm = self.Join();
          Buffers buffers;
          auto result = Sum(comm, buffers);
          for (int i = 0; i < times && result == tuttiSuccess; ++i) {
            result = what().call(self.rank(), self.size(), comm, buffers);
          }
          if (result == tuttiSuccess) result = Sum(comm, buffers);
          EXPECT_TRUE(Fails(result, tuttiInvalidUsage, WithRanks(what().words)));
          self.Meet();
        },
        options());
  }
}

TEST_P(Roots, ThatDisagreeAreToldWithoutAnotherCollective) {
  if (first_one_waits()) GTEST_SKIP() << "for a connection";
  RunRanks(
      2,
      [&](Rank& self) {
        const auto comm = self.Join();
        Buffers buffers;
        auto result = tuttiSuccess;
        // In step, so that no rank waits for room: rings have room for 64.
        constexpr int kMostCalls = 40;
        for (int i = 0; i < kMostCalls; ++i) {
          if (result == tuttiSuccess) result = what().call(self.rank(), self.size(), comm, buffers);
          self.Meet();
        }
        // Between hosts, empty broadcasts send nothing, so only a collective that hears from the others reports them.
        if (result == tuttiSuccess && between_hosts() && what().name == "empty_broadcasts") result = Sum(comm, buffers);
        EXPECT_TRUE(Fails(result, tuttiInvalidUsage, WithRanks(what().words)));
        self.Meet();
      },
      options());
}

TEST_P(Roots, ThatDisagreeAreToldWhenTheCommunicatorEnds) {
  for (const bool finalizes : {false, true}) {
    RunRanks(
        2,
        [&](Rank& self) {
          auto comm = self.Join();
          Buffers buffers;
          EXPECT_TRUE(Ok(Sum(comm, buffers)));
          auto result = what().call(self.rank(), self.size(), comm, buffers);
          self.Meet();
          const auto handle = comm.Release();
          const auto ended = finalizes ? tuttiCommFinalize(handle) : tuttiCommDestroy(handle);
          if (result == tuttiSuccess) result = ended;  // if the rank had to wait, the call itself fails
          // A rank learns of a mismatch on another host only if that host's message has arrived.
          if (result != tuttiSuccess || !between_hosts()) {
            EXPECT_TRUE(Fails(result, tuttiInvalidUsage, WithRanks(what().words)));
          }
          if (!finalizes) return;
          const auto destroyed = tuttiCommDestroy(handle);
          // The message may have come since tuttiCommFinalize looked.
          if (destroyed != tuttiSuccess && result == tuttiSuccess && between_hosts()) {
            EXPECT_TRUE(Fails(destroyed, tuttiInvalidUsage, WithRanks(what().words)));
          } else {
            EXPECT_TRUE(Ok(destroyed));
          }
        },
        options());
  }
}

// A rank that comes to the end first waits for the others' calls, because nothing tells it later.
TEST(RootsThatDisagree, AreToldByFinalizeWhoeverIsFirst) {
  for (const int extra : {0, 2}) {  // calls that the other rank makes beyond those
    SCOPED_TRACE(extra);
    RunRanks(2, [&](Rank& self) {
      auto comm = self.Join();
      Buffers buffers;
      ASSERT_TRUE(Ok(Sum(comm, buffers)));
      if (self.rank() == 1) usleep(200'000);
      tuttiResult_t result = tuttiSuccess;
      for (int i = 0; i < 2 + extra * self.rank() && result == tuttiSuccess; ++i) {
        result = Broadcast(self.rank(), 4, comm, buffers);
      }
      if (extra > 0) self.Meet();
      if (result == tuttiSuccess) result = tuttiCommFinalize(comm);
      EXPECT_TRUE(Fails(result, tuttiInvalidUsage, {"broadcast(count=4", "root=0", "root=1"}));
      self.Meet();
    });
  }
}

// It waits for a second, and for nobody who has ended.
TEST(RootsThatDisagree, HoldUpNoFinalizeOfARankThatIsRight) {
  RunRanks(2, [](Rank& self) {
    auto comm = self.Join();
    Buffers buffers;
    if (self.rank() == 0) {
      EXPECT_TRUE(Ok(Broadcast(0, 4, comm, buffers)));
      EXPECT_TRUE(Ok(tuttiCommFinalize(comm)));
    }
    self.Meet();
    if (self.rank() == 1) {
      EXPECT_TRUE(Ok(Broadcast(0, 4, comm, buffers)));
    }
    self.Meet();
  });
}

TEST_P(Roots, ThatDisagreeAreToldByASplit) {
  if (first_one_waits()) GTEST_SKIP() << "for a connection";
  const auto outcomes = RunRanks(
      2,
      [&](Rank& self) {
        auto comm = self.Join();
        Buffers buffers;
        self.board().numbers.at(static_cast<std::size_t>(self.rank())) =
            what().call(self.rank(), self.size(), comm, buffers);
        self.Meet();
        for (int r = 0; r < self.size(); ++r) {
          if (self.board().numbers.at(static_cast<std::size_t>(r)) == tuttiSuccess) continue;
          EXPECT_EQ(self.board().numbers.at(static_cast<std::size_t>(r)), tuttiInvalidUsage);
          // A rank that had to wait has the error, and splits nothing. Destroy would report it to the other rank.
          EXPECT_TRUE(Ok(tuttiCommAbort(comm.Release())));
          return;
        }
        tuttiComm_t part = nullptr;
        const auto result = tuttiCommSplit(comm, 0, 0, &part, nullptr);
        self.Note(tuttiGetLastError(nullptr));
        EXPECT_EQ(result, tuttiInvalidUsage);
        EXPECT_TRUE(Fails(Sum(comm, buffers), tuttiInvalidUsage, WithRanks({}))) << "dead communicators stay dead";
        self.Meet();
      },
      options());
  EXPECT_EQ(outcomes[0].notes, outcomes[1].notes);
}

// With the check, the call itself reports the disagreement.
TEST_P(Roots, ThatDisagreeAreToldAtOnceOnRequest) {
  RunRanks(
      2,
      [&](Rank& self) {
        const auto comm = self.Join();
        Buffers buffers;
        EXPECT_TRUE(Ok(Sum(comm, buffers)));
        EXPECT_TRUE(Ok(Broadcast(1, 10, comm, buffers)));
        EXPECT_TRUE(
            Fails(what().call(self.rank(), self.size(), comm, buffers), tuttiInvalidUsage, WithRanks(what().words)));
        self.Meet();
      },
      options({{"TUTTI_CHECK", "1"}}));
}

INSTANTIATE_TEST_SUITE_P(About, Roots,
                         ::testing::Combine(::testing::ValuesIn(Grid(Indices(SilentCases().size()), 3)),
                                            ::testing::ValuesIn(Grid(Indices(Places().size()), 3))),
                         [](const auto& info) {
                           return SilentCases()[std::get<0>(info.param)].name + "_on_" +
                                  Places()[std::get<1>(info.param)].name;
                         });

TEST(RootsOnRequest, AreCheckedInGroupsAndOnStreams) {
  RunRanks(
      2,
      [&](Rank& self) {
        const auto comm = self.Join();
        Buffers buffers;
        tuttiStream_t stream = nullptr;
        ASSERT_TRUE(Ok(tuttiStreamCreate(&stream)));
        EXPECT_TRUE(Ok(tuttiGroupStart()));
        for (int root : {0, 1}) EXPECT_TRUE(Ok(Broadcast(root, 10, comm, buffers)));
        EXPECT_TRUE(Ok(tuttiGroupEnd()));
        EXPECT_TRUE(Ok(tuttiBroadcast(buffers.send.data(), buffers.receive.data(), 10, kF, self.rank(), comm, stream)));
        EXPECT_TRUE(Fails(tuttiStreamSynchronize(stream), tuttiInvalidUsage));
        EXPECT_TRUE(Fails(Sum(comm, buffers), tuttiInvalidUsage, WithRanks({"root=0", "root=1"})));
        EXPECT_TRUE(Ok(tuttiStreamDestroy(stream)));
        self.Meet();
      },
      {.environment = {{"TUTTI_CHECK", "1"}}});
}

// Registering a window also exchanges data between all ranks.
TEST(RootsThatDisagree, AreToldByAWindow) {
  RunRanks(2, [&](Rank& self) {
    const auto comm = self.Join();
    Buffers buffers;
    void* memory = nullptr;
    ASSERT_TRUE(Ok(tuttiMemAlloc(&memory, 4096)));
    EXPECT_TRUE(Ok(Broadcast(self.rank(), 10, comm, buffers)));
    tuttiWindow_t window = nullptr;
    EXPECT_EQ(tuttiCommWindowRegister(comm, memory, 4096, &window, 0), tuttiInvalidUsage);
    EXPECT_TRUE(Fails(Sum(comm, buffers), tuttiInvalidUsage, WithRanks({"root=0", "root=1"})));
    self.Meet();
    EXPECT_TRUE(Ok(tuttiMemFree(memory)));
  });
}

// Messages do not wait for collectives, but use up records.
TEST(RootsThatDisagree, AreToldAmongMessages) {
  RunRanks(2, [&](Rank& self) {
    const auto comm = self.Join();
    Buffers buffers;
    auto result = Broadcast(self.rank(), 10, comm, buffers);
    for (int i = 0; i < 1000 && result == tuttiSuccess; ++i) {
      result = self.rank() == 0 ? tuttiSend(buffers.send.data(), 10, kF, 1, comm, nullptr)
                                : tuttiRecv(buffers.receive.data(), 10, kF, 0, comm, nullptr);
    }
    EXPECT_TRUE(Fails(result, tuttiInvalidUsage, WithRanks({"root=0", "root=1"})));
    self.Meet();
  });
}

// One of several ranks is odd. All must get the error: those that agree, and the rank whose record all others check.
TEST(RootsThatDisagree, AreToldToAllOfSeveral) {
  for (const int odd : {0, 1, 2, 3}) {
    for (const char* hosts : {"1", "2"}) {
      SCOPED_TRACE(fmt::format("rank {} is odd, on {} hosts", odd, hosts));
      RunRanks(4,
               [&](Rank& self) {
                 const auto comm = self.Join();
                 Buffers buffers;
                 const int usual = odd == 0 ? 1 : 0;
                 // The odd rank broadcasts alone; the others wait for their root, and the root waits for no rank.
                 auto result = Broadcast(self.rank() == odd ? odd : usual, 10, comm, buffers);
                 if (result == tuttiSuccess) result = Sum(comm, buffers);
                 EXPECT_TRUE(Fails(result, tuttiInvalidUsage,
                                   {"do not match", fmt::format("root={}", odd), fmt::format("root={}", usual)}));
                 self.Meet();
               },
               {.environment = {{"TUTTI_VIRTUAL_HOSTS", hosts}}});
    }
  }
}

// Ranks that run ahead of others, as roots do, do not count as ranks that disagree.
TEST(RootsThatAgree, AreLeftAlone) {
  if (const auto why = WhyEmulated("thousands of calls in each of many places"); !why.empty()) GTEST_SKIP() << why;
  for (const auto& place : Places()) {
    SCOPED_TRACE(place.name);
    RunRanks(
        3,
        [&](Rank& self) {
          auto comm = self.Join();
          Buffers buffers;
          std::uint32_t state = 7;  // the same on all ranks
          const auto draw = [&](std::uint32_t most) { return (state = state * 1664525 + 1013904223) / 65536 % most; };
          for (int i = 0; i < 3000; ++i) {
            const int root = i % 500 < 400 ? (i / 500) % 3 : static_cast<int>(draw(3));
            const std::size_t count = std::array{0, 1, 10, 300}[draw(4)];
            auto result = tuttiSuccess;
            switch (draw(6)) {
              case 0: result = Gather(root, count, comm, buffers); break;
              case 1: result = Reduce(root, count, comm, buffers); break;
              case 2: result = Scatter(root, count, comm, buffers); break;
              case 3:
                if (self.rank() == 0) result = tuttiSend(buffers.send.data(), count, kF, 1, comm, nullptr);
                if (self.rank() == 1) result = tuttiRecv(buffers.receive.data(), count, kF, 0, comm, nullptr);
                break;
              default: result = Broadcast(root, count, comm, buffers); break;
            }
            ASSERT_TRUE(Ok(result)) << i;
          }
          EXPECT_TRUE(Ok(tuttiCommFinalize(comm)));
        },
        place.options);
  }
}

}  // namespace
}  // namespace tutti::testing
