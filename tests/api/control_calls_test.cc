// Control calls (splits, growth, windows) in which one rank makes another call or fails by itself: all ranks get the
// error at once, with the reason.
#include <sys/resource.h>

#include <cstdlib>
#include <functional>

#include "testing/ranks.h"
#include "testing/surroundings.h"

namespace tutti::testing {
namespace {

// Below all timeouts, so no rank gets the error by timeout.
constexpr std::chrono::seconds kLimit{30};

struct ControlCall {
  std::string name;  // in messages
  std::function<tuttiResult_t(tuttiComm_t)> make;
  bool waits = true;  // whether it waits for the other ranks
};

void* Allocated() {
  void* memory = nullptr;
  EXPECT_TRUE(Ok(tuttiMemAlloc(&memory, 4096)));
  return memory;
}

// One control call of each kind.
std::vector<ControlCall> ControlCalls() {
  return {{"split",
           [](tuttiComm_t comm) {
             tuttiComm_t child = nullptr;
             return tuttiCommSplit(comm, 1, 0, &child, nullptr);
           }},
          {"grow",
           [](tuttiComm_t comm) {
             tuttiUniqueId id;
             EXPECT_TRUE(Ok(tuttiGetUniqueId(&id)));
             tuttiComm_t child = nullptr;
             return tuttiCommGrow(comm, 4, &id, 0, &child, nullptr);
           }},
          {"window_register",
           [](tuttiComm_t comm) {
             tuttiWindow_t fresh = nullptr;
             return tuttiCommWindowRegister(comm, Allocated(), 4096, &fresh, TUTTI_WIN_DEFAULT);
           }},
          {"finalize", [](tuttiComm_t comm) { return tuttiCommFinalize(comm); }, false},
          {"destroy", [](tuttiComm_t comm) { return tuttiCommDestroy(comm); }, false}};
}

struct Pair {
  std::size_t usual, odd;
};
// Pairs of different calls; the first call of each waits for the other ranks.
std::vector<Pair> Pairs() {
  std::vector<Pair> pairs;
  const auto calls = ControlCalls();
  for (std::size_t usual = 0; usual < calls.size(); ++usual) {
    for (std::size_t odd = 0; odd < calls.size(); ++odd) {
      if (usual != odd && calls[usual].waits) pairs.push_back({usual, odd});
    }
  }
  return pairs;
}

class ControlCallsDiffer : public ::testing::TestWithParam<Pair> {};

TEST_P(ControlCallsDiffer, IsToldOnEveryRank) {
  const auto [usual, odd] = GetParam();
  const auto names = ControlCalls();
  // The odd rank is rank 0, the centre of the control plane, or another one.
  for (const int odd_rank : {0, 2}) {
    for (const bool odd_is_late : {false, true}) {
      RunRanks(3,
               [&, usual = usual, odd = odd](Rank& self) {
                 Comm comm = self.Join();
                 self.Meet();
                 const bool is_odd = self.rank() == odd_rank;
                 if (is_odd == odd_is_late) usleep(50'000);
                 const auto call = ControlCalls()[is_odd ? odd : usual];
                 const auto result = call.make(comm);
                 if (call.waits) {
                   EXPECT_TRUE(Fails(result, tuttiInvalidUsage,
                                     {"the ranks' calls do not match", " called " + names[usual].name,
                                      " called " + names[odd].name, "rank " + std::to_string(odd_rank) + " "}));
                   auto state = tuttiSuccess;
                   EXPECT_TRUE(Ok(tuttiCommGetAsyncError(comm, &state)));
                   EXPECT_EQ(state, tuttiInvalidUsage);
                 } else {
                   EXPECT_TRUE(Ok(result));
                 }
                 if (call.name == "destroy") comm.Release();
                 self.Meet();
               },
               {.limit = kLimit});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, ControlCallsDiffer, ::testing::ValuesIn(Grid(Pairs())), [](const auto& info) {
  const auto calls = ControlCalls();
  return calls[info.param.usual].name + "_beside_" + calls[info.param.odd].name;
});

// From now on, this process can open no descriptor.
void TakeDescriptors() {
  const rlimit none{3, 3};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
}

// The unlucky rank leads a part whose ranks have no connection to each other, but cannot open a rendezvous for it.
TEST(ControlCallFails, InASplitOnOneRankAndAllAreTold) {
  for (const int unlucky : {1, 2}) {
    RunRanks(
        3,
        [&](Rank& self) {
          const Comm comm = self.Join();
          if (self.rank() == unlucky) TakeDescriptors();
          tuttiComm_t child = nullptr;
          const auto who = "rank " + std::to_string(unlucky) + " ";
          std::vector<std::string> words{"Too many open files"};
          if (self.rank() != unlucky) words.insert(words.end(), {who, "failed in split"});
          const int color = self.rank() == 0 ? 1 : 2, key = self.rank() == unlucky ? 0 : 1;
          const auto result = tuttiCommSplit(comm, color, key, &child, nullptr);
          EXPECT_TRUE(Fails(result, tuttiSystemError, words));
          EXPECT_EQ(child, nullptr);
          // Operations go on, and another split repeats the failure.
          std::vector<float> data(10, 1);
          EXPECT_TRUE(Ok(AllReduce(comm, data)));
          EXPECT_EQ(data[0], 3);
          EXPECT_TRUE(Fails(tuttiCommSplit(comm, 1, 0, &child, nullptr), tuttiSystemError, {"Too many open files"}));
          self.Meet();
        },
        {.limit = kLimit});
  }
}

TEST(ControlCallFails, InAWindowsRegistrationOnOneRankAndAllAreTold) {
  for (const int unlucky : {0, 1}) {
    RunRanks(3,
             [&](Rank& self) {
               const Comm comm = self.Join();
               void* const memory = Allocated();
               if (self.rank() == unlucky) TakeDescriptors();
               tuttiWindow_t window = nullptr;
               std::vector<std::string> words{"descriptor"};
               if (self.rank() != unlucky) words.push_back("rank " + std::to_string(unlucky) + " ");
               EXPECT_TRUE(Fails(tuttiCommWindowRegister(comm, memory, 4096, &window, TUTTI_WIN_DEFAULT),
                                 tuttiSystemError, words));
               self.Meet();
             },
             {.limit = kLimit});
  }
}

TEST(ControlCallFails, WhileJoiningOnOneRankAndAllAreTold) {
  for (const int unlucky : {0, 1}) {
    RunRanks(3,
             [&](Rank& self) {
               if (self.rank() == unlucky) setenv("TUTTI_ALGO", "nonsense", 1);
               tuttiComm_t comm = nullptr;
               std::vector<std::string> words{"nonsense"};
               if (self.rank() != unlucky) words.push_back("rank " + std::to_string(unlucky) + " ");
               EXPECT_TRUE(
                   Fails(tuttiCommInitRank(&comm, self.size(), self.IdOf(), self.rank()), tuttiInvalidArgument, words));
               EXPECT_EQ(comm, nullptr);
               self.Meet();
             },
             {.limit = kLimit});
  }
}

}  // namespace
}  // namespace tutti::testing
