// Ranks whose calls do not match: every rank gets tuttiInvalidUsage (never wrong data, never a hang), and the message
// names both calls and both ranks.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <map>

#include "testing/ranks.h"
#include "testing/surroundings.h"

namespace tutti::testing {
namespace {

constexpr std::size_t kMost = 400'000;  // elements of the buffers

struct Buffers {
  std::vector<double> send = std::vector<double>(kMost, 1), receive = std::vector<double>(kMost, 0);
};
using Call = std::function<tuttiResult_t(tuttiComm_t, Buffers&)>;

struct Disagreement {
  std::string name;
  Call usual;
  Call odd;
  std::vector<std::string> words;  // required in the message
};

constexpr auto kF = tuttiFloat32;

Call AllReduce(std::size_t count, tuttiDataType_t type = kF, tuttiRedOp_t op = tuttiSum) {
  return [=](tuttiComm_t comm, Buffers& b) {
    return tuttiAllReduce(b.send.data(), b.receive.data(), count, type, op, comm, nullptr);
  };
}
Call Broadcast(std::size_t count, int root) {
  return [=](tuttiComm_t comm, Buffers& b) {
    return tuttiBroadcast(b.send.data(), b.receive.data(), count, kF, root, comm, nullptr);
  };
}
Call Reduce(std::size_t count, int root) {
  return [=](tuttiComm_t comm, Buffers& b) {
    return tuttiReduce(b.send.data(), b.receive.data(), count, kF, tuttiSum, root, comm, nullptr);
  };
}
Call AllGather(std::size_t count) {
  return [=](tuttiComm_t comm, Buffers& b) {
    return tuttiAllGather(b.send.data(), b.receive.data(), count, kF, comm, nullptr);
  };
}
Call AllToAll(std::size_t count) {
  return [=](tuttiComm_t comm, Buffers& b) {
    return tuttiAlltoAll(b.send.data(), b.receive.data(), count, kF, comm, nullptr);
  };
}
Call Barrier() {
  return [](tuttiComm_t comm, Buffers&) { return tuttiBarrier(comm, nullptr); };
}
Call AllGatherV(std::array<std::size_t, 3> counts) {
  return [=](tuttiComm_t comm, Buffers& b) {
    int rank = 0;
    tuttiCommUserRank(comm, &rank);
    const std::array<std::size_t, 3> places = {0, counts[0], counts[0] + counts[1]};
    return tuttiAllGatherV(b.send.data(), counts[static_cast<std::size_t>(rank)], b.receive.data(), counts.data(),
                           places.data(), kF, comm, nullptr);
  };
}
// Each rank sends `count` elements to each other rank, but `more` than expected to rank `to`.
Call AllToAllV(std::size_t count, int to, std::size_t more) {
  return [=](tuttiComm_t comm, Buffers& b) {
    const std::array<std::size_t, 3> receives = {count, count, count}, places = {0, 2 * count, 4 * count};
    auto sends = receives;
    sends[static_cast<std::size_t>(to)] += more;
    return tuttiAlltoAllV(b.send.data(), sends.data(), places.data(), b.receive.data(), receives.data(), places.data(),
                          kF, comm, nullptr);
  };
}
// Rank 0 sends, rank 2 receives.
Call Message(std::size_t sent, std::size_t received, tuttiDataType_t received_as = kF) {
  return [=](tuttiComm_t comm, Buffers& b) {
    int rank = 0;
    tuttiCommUserRank(comm, &rank);
    if (rank == 0) return tuttiSend(b.send.data(), sent, kF, 2, comm, nullptr);
    if (rank == 2) return tuttiRecv(b.receive.data(), received, received_as, 0, comm, nullptr);
    return tuttiBarrier(comm, nullptr);  // gets the failure
  };
}

const std::vector<Disagreement>& Disagreements() {
  static const std::vector<Disagreement> all = {
      {"collective", AllReduce(100), AllGather(100), {"all_reduce(count=100", "all_gather(count=100"}},
      {"collective_and_barrier", AllReduce(1), Barrier(), {"all_reduce(count=1,", "barrier()"}},
      {"large_collective", AllReduce(100'000), AllToAll(100'000), {"all_reduce", "all_to_all"}},
      {"count", AllReduce(100), AllReduce(101), {"count=100", "count=101"}},
      {"count_small_and_large", AllReduce(1), AllReduce(200'000), {"count=1,", "count=200000"}},
      {"large_count", AllReduce(200'000), AllReduce(200'001), {"count=200000", "count=200001"}},
      {"zero_count", AllReduce(0), AllReduce(1), {"count=0", "count=1"}},
      {"type", AllReduce(64), AllReduce(64, tuttiInt32), {"float32", "int32"}},
      {"type_of_equal_bytes", AllReduce(64), AllReduce(32, tuttiFloat64), {"float32", "float64"}},
      {"op", AllReduce(64), AllReduce(64, kF, tuttiMax), {"sum", "max"}},
      {"op_large", AllReduce(100'000), AllReduce(100'000, kF, tuttiMax), {"sum", "max"}},
      {"root", Broadcast(64, 0), Broadcast(64, 1), {"root=0", "root=1"}},
      {"root_large", Broadcast(100'000, 0), Broadcast(100'000, 1), {"root=0", "root=1"}},
      {"reduce_root", Reduce(64, 0), Reduce(64, 2), {"root=0", "root=2"}},
      {"v_counts", AllGatherV({5, 6, 7}), AllGatherV({5, 7, 7}), {"all_gather_v(counts per rank", "other recvcounts"}},
      {"v_counts_large",
       AllGatherV({50'000, 6, 7}),
       AllGatherV({50'000, 6, 8}),
       {"all_gather_v(counts per rank", "other recvcounts"}},
      {"alltoall_v_pair", AllToAllV(10, 0, 0), AllToAllV(10, 1, 5), {"all_to_all_v"}},
      {"alltoall_v_pair_large", AllToAllV(40'000, 0, 0), AllToAllV(40'000, 1, 5'000), {"all_to_all_v"}},
      {"message_count", Message(10, 10), Message(10, 11), {"send(count=10", "receive(count=11"}},
      {"message_count_large",
       Message(100'000, 100'000),
       Message(100'000, 50'000),
       {"send(count=100000", "receive(count=50000"}},
      {"message_type", Message(10, 10), Message(10, 10, tuttiInt32), {"float32", "int32"}},
  };
  return all;
}

class Disagree : public ::testing::TestWithParam<std::size_t> {};

TEST_P(Disagree, IsToldOnEveryRank) {
  const auto& what = Disagreements()[GetParam()];
  // The last rank is the odd one: it is neither the root nor the first to be checked.
  constexpr int kRanks = 3, kOdd = 2;
  // A polling wait and a sleeping wait find a mismatched message at different places.
  for (const char* wait : {"", "late", "sleep"}) {
    const bool odd_comes_late = *wait != '\0';
    SCOPED_TRACE(odd_comes_late ? "the odd rank comes last" : "all come at once");
    const auto outcomes = RunRanks(
        kRanks,
        [&](Rank& self) {
          auto comm = self.Join();
          Buffers buffers;
          ASSERT_TRUE(Ok(tuttiBarrier(comm, nullptr)));
          self.Meet();  // otherwise a rank slow to leave the barrier gets the error inside it
          const bool odd = self.rank() == kOdd;
          if (odd && odd_comes_late) usleep(30'000);
          auto result = (odd ? what.odd : what.usual)(comm, buffers);
          // A rank whose own part was complete before the mismatch was found gets the error in its next call at the
          // latest.
          if (result == tuttiSuccess) result = tuttiBarrier(comm, nullptr);
          self.Note(tuttiGetLastError(comm));
          std::vector<std::string> words = what.words;
          words.push_back("rank 2 ");
          EXPECT_TRUE(Fails(result, tuttiInvalidUsage, words));
          tuttiResult_t state = tuttiSuccess;
          EXPECT_TRUE(Ok(tuttiCommGetAsyncError(comm, &state)));
          EXPECT_EQ(state, tuttiInvalidUsage);
          EXPECT_TRUE(Fails(tuttiBarrier(comm, nullptr), tuttiInvalidUsage)) << "dead communicators stay dead";
          self.Meet();  // no rank leaves before all have checked
        },
        {.limit = std::chrono::seconds(20), .environment = {{"TUTTI_WAIT", std::string(wait) == "late" ? "" : wait}}});
    std::map<std::string, int> told;
    for (const auto& outcome : outcomes) {
      for (const auto& note : outcome.notes) ++told[note];
    }
    for (const auto& [message, ranks] : told) fmt::print("  {} x {}\n", ranks, message);
  }
}

INSTANTIATE_TEST_SUITE_P(About, Disagree, ::testing::ValuesIn(Grid(Indices(Disagreements().size()), 8)),
                         [](const auto& info) { return Disagreements()[info.param].name; });

// Short messages use other slots than longer ones, so the receiver does not see them arrive. The sender goes on until
// it has no room, when its first call is no longer on record. Only then does the receiver call: a call that is on
// record would be found there.
void SendsWhatIsNotReceived(const RunOptions& options, tuttiResult_t code) {
  RunRanks(
      3,
      [&](Rank& self) {
        const auto comm = self.Join();
        Buffers buffers;
        auto result = tuttiSuccess;
        constexpr int kMoreThanRecords = 150;
        // On the board: rank 2 has all its messages; rank 0 has moved on to another message to rank 1.
        auto& taken = self.board().numbers[0];
        auto& gone_on = self.board().numbers[1];
        const auto await = [](const auto& number) {
          while (number.load() == 0) usleep(1000);
        };
        if (self.rank() == 1) {
          await(gone_on);
          result = tuttiRecv(buffers.receive.data(), 20, kF, 0, comm, nullptr);
        } else if (self.rank() == 0) {
          result = tuttiSend(buffers.send.data(), 10, kF, 1, comm, nullptr);
          for (int i = 0; i < kMoreThanRecords && result == tuttiSuccess; ++i) {
            result = tuttiSend(buffers.send.data(), 10, kF, 2, comm, nullptr);
          }
          await(taken);
          if (result == tuttiSuccess) result = tuttiSend(buffers.send.data(), 10, kF, 1, comm, nullptr);
          gone_on = 1;
          while (result == tuttiSuccess) result = tuttiSend(buffers.send.data(), 10, kF, 1, comm, nullptr);
        } else {
          for (int i = 0; i < kMoreThanRecords && result == tuttiSuccess; ++i) {
            result = tuttiRecv(buffers.receive.data(), 10, kF, 0, comm, nullptr);
          }
          EXPECT_TRUE(Ok(result));
          taken = 1;
          self.Meet();
          return;
        }
        EXPECT_TRUE(
            Fails(result, code, {"receive(count=20, float32, from rank 0)", "send(count=10, float32, to rank 1)"}));
        self.Meet();
      },
      options);
}

TEST(OtherMessages, AreToldFromLateOnes) { SendsWhatIsNotReceived({}, tuttiInvalidUsage); }

// The two ranks wait for each other, and no other rank is involved.
TEST(Crossing, OfAMessageAndACollectiveIsTold) {
  for (const bool threads : {false, true}) {
    for (const bool sends : {false, true}) {
      RunRanks(3,
               [&](Rank& self) {
                 const auto comm = self.Join();
                 Buffers buffers;
                 auto result = tuttiSuccess;
                 if (self.rank() > 0) {
                   result = AllReduce(100)(comm, buffers);
                 } else if (sends) {
                   result = tuttiSend(buffers.send.data(), 300'000, kF, 1, comm, nullptr);  // more than the slots hold
                 } else {
                   result = tuttiRecv(buffers.receive.data(), 10, kF, 1, comm, nullptr);
                 }
                 EXPECT_TRUE(Fails(result, tuttiInvalidUsage,
                                   {"all_reduce(count=100", sends ? "send(count=300000" : "receive(count=10", "rank 0 ",
                                    "rank 1 ", "each waits for the other"}));
                 self.Meet();
               },
               {.threads = threads, .limit = std::chrono::seconds(20)});
    }
  }
}

// Only a v-form rank's own counts determine what it needs, so it publishes which rank it waits for.
TEST(Crossing, OfAMessageAndAVFormIsTold) {
  const std::vector<std::pair<std::string, Call>> forms = {{"all_gather_v", AllGatherV({50, 60, 70})},
                                                           {"all_gather_v", AllGatherV({50'000, 0, 70'000})},
                                                           {"all_to_all_v", AllToAllV(100, 0, 0)}};
  for (const auto& [name, form] : forms) {
    for (int trial = 0; trial < Rounds(4); ++trial) {
      const int peer = 1 + trial % 2;
      RunRanks(3,
               [&, &name = name, &form = form](Rank& self) {
                 const auto comm = self.Join();
                 Buffers buffers;
                 const auto result = self.rank() > 0 ? form(comm, buffers)
                                                     : tuttiRecv(buffers.receive.data(), 10, kF, peer, comm, nullptr);
                 EXPECT_TRUE(Fails(result, tuttiInvalidUsage,
                                   {name + "(", "receive(count=10", "rank 0 ", "rank " + std::to_string(peer) + " ",
                                    "each waits for the other"}));
                 self.Meet();
               },
               {.threads = trial >= 2, .limit = std::chrono::seconds(20)});
    }
  }
}

// A leaf of a gather may end without its root, except where the root reads its buffer in place.
TEST(Crossing, OfAMessageAndAGatherIsTold) {
  for (const int peer : {1, 2}) {
    RunRanks(3,
             [&](Rank& self) {
               const auto comm = self.Join();
               Buffers buffers;
               const auto result = self.rank() > 0 ? tuttiGather(buffers.send.data(), buffers.receive.data(), 90'000,
                                                                 kF, 0, comm, nullptr)
                                                   : tuttiRecv(buffers.receive.data(), 10, kF, peer, comm, nullptr);
               EXPECT_TRUE(Fails(result, tuttiInvalidUsage,
                                 {"gather(count=90000", "receive(count=10", "rank 0 ", "rank " + std::to_string(peer),
                                  "each waits for the other"}));
               self.Meet();
             },
             {.threads = true, .limit = std::chrono::seconds(20)});
  }
}

TEST(Crossing, OfTwoReceivesIsTold) {
  RunRanks(
      2,
      [](Rank& self) {
        const auto comm = self.Join();
        Buffers buffers;
        EXPECT_TRUE(Fails(tuttiRecv(buffers.receive.data(), 10, kF, 1 - self.rank(), comm, nullptr), tuttiInvalidUsage,
                          {"receive(count=10, float32, from rank 0)", "receive(count=10, float32, from rank 1)"}));
        self.Meet();
      },
      {.limit = std::chrono::seconds(20)});
}

// Concurrent operations may complete in any order, however late they start.
TEST(Crossing, InAGroupIsNone) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    Buffers buffers;
    if (self.rank() == 0) {
      EXPECT_TRUE(Ok(tuttiRecv(buffers.receive.data(), 300'000, kF, 1, comm, nullptr)));
      EXPECT_TRUE(Ok(AllReduce(100)(comm, buffers)));
      return;
    }
    usleep(1'200'000);
    EXPECT_TRUE(Ok(tuttiGroupStart()));
    EXPECT_TRUE(Ok(AllReduce(100)(comm, buffers)));
    EXPECT_TRUE(Ok(tuttiSend(buffers.send.data(), 300'000, kF, 0, comm, nullptr)));
    EXPECT_TRUE(Ok(tuttiGroupEnd()));
  });
}

// The signature omits counts that only pairs of ranks know.
TEST(Withheld, BlocksOfAnAllToAllAreTold) {
  RunRanks(2,
           [](Rank& self) {
             const auto comm = self.Join();
             Buffers buffers;
             const bool gives = self.rank() == 1;
             const std::size_t sends[] = {gives ? 0U : 10U, 10}, receives[] = {10, 10}, places[] = {0, 20};
             auto result = tuttiAlltoAllV(buffers.send.data(), sends, places, buffers.receive.data(), receives, places,
                                          kF, comm, nullptr);
             if (result == tuttiSuccess) result = tuttiBarrier(comm, nullptr);
             EXPECT_TRUE(Fails(result, tuttiInvalidUsage, {"all_to_all_v", "rank 0 ", "rank 1 "}));
             self.Meet();
           },
           {.limit = std::chrono::seconds(20)});
}

// Between hosts the message may still be in flight.
// In a call that repeats an earlier one, too, a rank whose data has come is not taken for one that has sent too little.
TEST(Withheld, NothingIsWhereAThirdRankIsLate) {
  RunRanks(3, [](Rank& self) {
    auto comm = self.Join();
    constexpr int kCalls = 10;  // the later ones take the path of repeated calls
    for (int call = 0; call < kCalls; ++call) {
      std::int64_t value = self.rank() + call;
      if (self.rank() == 2 && call == kCalls - 1) usleep(1'500'000);  // longer than a failure detector lets pass
      ASSERT_TRUE(Ok(tuttiReduce(&value, &value, 1, tuttiInt64, tuttiSum, 0, comm, nullptr))) << call;
      if (self.rank() == 0) {
        EXPECT_EQ(value, 3 + 3 * call);
      }
    }
  });
}

TEST(OtherMessages, BetweenHostsAreNamedWhenTheTimeIsOver) {
  SendsWhatIsNotReceived({.environment = {{"TUTTI_VIRTUAL_HOSTS", "3"}, {"TUTTI_TIMEOUT_MS", "1500"}}},
                         tuttiTimeoutError);
}

}  // namespace
}  // namespace tutti::testing
