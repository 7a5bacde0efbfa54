// Calls that repeat earlier ones: the library recognises them and skips most checks, which must change nothing.
#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "testing/collective_case.h"
#include "testing/from_outside.h"

namespace tutti::testing {
namespace {

constexpr std::size_t KiB = 1024;
constexpr int kRounds = 6;
constexpr std::array kRepeatable = {What::all_reduce, What::reduce,   What::broadcast, What::reduce_scatter,
                                    What::all_gather, What::alltoall, What::gather,    What::scatter};

// The same small call several times, with the values and the place changing, alone or with other calls in between.
void RunRepeated(int ranks, const RunOptions& options) {
  RunRanks(
      ranks,
      [](Rank& self) {
        const auto comm = self.Join();
        Arena arena(Arena::Kind::plain, 64 * KiB);
        for (const bool mixed : {false, true}) {
          for (const std::size_t count : {std::size_t{1}, std::size_t{3}, std::size_t{100}}) {
            for (int round = 0; round < kRounds * std::ssize(kRepeatable); ++round) {
              const auto which = static_cast<std::size_t>(mixed ? round % std::ssize(kRepeatable) : round / kRounds);
              const Case each{.what = kRepeatable[which],
                              .type = round % 5 == 4 ? tuttiInt8 : tuttiFloat32,
                              .count = round % 7 == 6 ? count + 1 : count,
                              .root = mixed ? round % self.size() : self.size() - 1,
                              .in_place = round % 3 == 2,
                              .seed = static_cast<std::uint32_t>(round)};
              ASSERT_EQ(RunCase(each, self.rank(), self.size(), comm, nullptr, arena), "") << each.Describe();
            }
          }
        }
      },
      options);
}

TEST(Repeated, CallsGiveTheReferencesResults) {
  for (const int ranks : {1, 2, 3, 5}) RunRepeated(ranks, {});
}
TEST(Repeated, CallsOfThreadsGiveTheReferencesResults) {
  for (const int ranks : {2, 4}) RunRepeated(ranks, {.threads = true});
}
TEST(Repeated, CallsBetweenHostsGiveTheReferencesResults) {
  RunRepeated(4, {.environment = {{"TUTTI_VIRTUAL_HOSTS", "2"}}});
}
TEST(Repeated, CallsWithChecksOnGiveTheReferencesResults) { RunRepeated(3, {.environment = {{"TUTTI_CHECK", "1"}}}); }

// A call's plans have been tried. The same on all ranks.
bool Tried(tuttiComm_t comm) { return LastOperation(comm).find(" us on trial, predicted ") != std::string::npos; }

// Between hosts, plans of a call that repeats itself are tried after a while.
TEST(RepeatedSlow, CallsWhosePlansAreTriedGiveTheReferencesResults) {
  RunRanks(
      4,
      [](Rank& self) {
        const auto comm = self.Join();
        Arena arena(Arena::Kind::plain, 1024 * KiB);
        for (const auto& [what, count] : {std::pair(What::all_reduce, std::size_t{100}),
                                          std::pair(What::all_gather, 20 * KiB), std::pair(What::alltoall, 20 * KiB)}) {
          bool tried = false;
          for (std::uint32_t round = 0; !tried; ++round) {
            const Case each{
                .what = what, .type = tuttiFloat32, .count = count, .in_place = round % 2 == 1, .seed = round};
            ASSERT_EQ(RunCase(each, self.rank(), self.size(), comm, nullptr, arena), "") << each.Describe();
            tried = round % 64 == 0 && Tried(comm);
          }
        }
      },
      {.environment = {{"TUTTI_VIRTUAL_HOSTS", "2"}, {"TUTTI_MEASURE", "all"}}});
}

// A rank may make a call alone, in a group, on a stream, or after another rank's that ran ahead: all count it alike.
TEST(RepeatedSlow, RanksThatCallInDifferentWaysTryTheSamePlans) {
  RunRanks(4,
           [](Rank& self) {
             const auto comm = self.Join();
             tuttiStream_t stream = nullptr;
             ASSERT_TRUE(Ok(tuttiStreamCreate(&stream)));
             std::array<std::int32_t, 16> mine{}, sums{};
             std::array<std::int32_t, 64> all{};
             bool tried = false;
             for (int call = 0; !tried; ++call) {
               mine.fill(call + self.rank());
               const int way = (call / 5 + self.rank()) % 3;
               if (way == 1) {
                 ASSERT_TRUE(Ok(tuttiGroupStart()));
               }
               const auto on = way == 2 ? stream : nullptr;
               ASSERT_TRUE(Ok(tuttiAllReduce(mine.data(), sums.data(), sums.size(), tuttiInt32, tuttiSum, comm, on)));
               ASSERT_TRUE(Ok(tuttiAllGather(mine.data(), all.data(), mine.size(), tuttiInt32, comm, on)));
               if (way == 1) {
                 ASSERT_TRUE(Ok(tuttiGroupEnd()));
               }
               if (way == 2) {
                 ASSERT_TRUE(Ok(tuttiStreamSynchronize(stream)));
               }
               ASSERT_EQ(sums.back(), 4 * call + 6) << "call " << call;
               for (std::size_t r = 0; r < 4; ++r)
                 ASSERT_EQ(all[r * 16 + 15], call + static_cast<int>(r)) << "call " << call;
               tried = call % 64 == 0 && Tried(comm);
             }
             EXPECT_TRUE(Ok(tuttiStreamDestroy(stream)));
           },
           {.environment = {{"TUTTI_VIRTUAL_HOSTS", "2"}}});
}

// Wrong buffers are refused in a repetition as in a first call, and the communicator stays usable.
TEST(Repeated, WrongBuffersAreRefused) {
  RunAlone([] {
    tuttiUniqueId id;
    ASSERT_TRUE(Ok(tuttiGetUniqueId(&id)));
    Comm comm;
    ASSERT_TRUE(Ok(tuttiCommInitRank(comm.address(), 1, id, 0)));
    std::vector<float> send(4, 2), receive(8, 0);
    const auto sum = [&](const void* from, void* to) {
      return tuttiAllReduce(from, to, 4, tuttiFloat32, tuttiSum, comm, nullptr);
    };
    auto* const bytes = reinterpret_cast<char*>(receive.data());
    for (int round = 0; round < 3; ++round) {
      EXPECT_TRUE(Ok(sum(send.data(), receive.data())));
      EXPECT_EQ(receive[3], 2);
      EXPECT_TRUE(Fails(sum(nullptr, receive.data()), tuttiInvalidArgument, {"sendbuff", "NULL"}));
      EXPECT_TRUE(Fails(sum(send.data(), nullptr), tuttiInvalidArgument, {"recvbuff", "NULL"}));
      EXPECT_TRUE(Fails(sum(send.data(), bytes + 2), tuttiInvalidArgument, {"recvbuff", "aligned"}));
      EXPECT_TRUE(Fails(sum(receive.data(), receive.data() + 1), tuttiInvalidArgument, {"overlap"}));
      EXPECT_TRUE(Fails(tuttiAllReduce(send.data(), receive.data(), 4, static_cast<tuttiDataType_t>(tuttiFloat32 + 256),
                                       tuttiSum, comm, nullptr),
                        tuttiInvalidArgument, {"datatype"}));
      EXPECT_TRUE(Ok(sum(receive.data(), receive.data())));  // in place
      EXPECT_TRUE(Fails(sum(nullptr, nullptr), tuttiInvalidArgument, {"NULL"}));
    }
  });
}

// A rank that leaves a long repetition for another call is named, as after a first call.
TEST(Repeated, MismatchesAreFound) {
  for (const bool threads : {false, true}) {
    RunRanks(3,
             [](Rank& self) {
               const auto comm = self.Join();
               std::vector<float> data(8, 1);
               auto result = tuttiSuccess;
               for (int round = 0; round < 100 && result == tuttiSuccess; ++round) {
                 const std::size_t count = round == 70 && self.rank() == 1 ? 5 : 4;
                 result = tuttiAllReduce(data.data(), data.data(), count, tuttiFloat32, tuttiMax, comm, nullptr);
               }
               EXPECT_TRUE(Fails(result, tuttiInvalidUsage, {"do not match", "count=5", "count=4", "rank 1 "}));
               self.Meet();
             },
             {.threads = threads});
  }
}

// Groups and messages between the repetitions keep their order.
TEST(Repeated, CallsMixWithGroupsAndMessages) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    const int peer = 1 - self.rank();
    std::vector<int> one(3, 1), two(3), mine(2, self.rank()), theirs(2, -1);
    for (int round = 0; round < 20; ++round) {
      ASSERT_TRUE(Ok(tuttiAllReduce(one.data(), two.data(), 3, tuttiInt32, tuttiSum, comm, nullptr)));
      EXPECT_EQ(two, std::vector<int>(3, 2));
      two.assign(3, 0);
      if (round % 2 == 1) {
        ASSERT_TRUE(Ok(tuttiGroupStart()));
        ASSERT_TRUE(Ok(tuttiAllReduce(one.data(), two.data(), 3, tuttiInt32, tuttiSum, comm, nullptr)));
        EXPECT_EQ(two[0], 0);  // a group's calls wait for its end
      }
      if (round % 2 == 0) {
        ASSERT_TRUE(Ok(tuttiGroupStart()));
      }
      ASSERT_TRUE(Ok(tuttiSend(mine.data(), 2, tuttiInt32, peer, comm, nullptr)));
      ASSERT_TRUE(Ok(tuttiRecv(theirs.data(), 2, tuttiInt32, peer, comm, nullptr)));
      ASSERT_TRUE(Ok(tuttiGroupEnd()));
      EXPECT_EQ(theirs, std::vector<int>(2, peer));
      if (round % 2 == 1) {
        EXPECT_EQ(two, std::vector<int>(3, 2));
      }
    }
  });
}

}  // namespace
}  // namespace tutti::testing
