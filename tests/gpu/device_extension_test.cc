// A library on top of Tutti, on GPUs: its tuner chooses their plans, and its observers hear of their calls.
#include <array>
#include <atomic>
#include <cstring>

#include "testing/device_rank.h"
#include "tutti/extension.h"

namespace tutti::testing {
namespace {

constexpr std::size_t KiB = 1024;

// What the hooks of one process see. Hooks have no other way to reach a test.
struct Seen {
  std::atomic<int> opened{0}, closed{0}, asked{0}, planned{0}, begun{0}, ended{0}, returned{0}, forgotten{0};
  std::atomic<std::uint64_t> bus{0};
};
Seen seen;
const char* wanted_protocol = "bulk";

int ChooseRing(void*, const tuttiTunedCall_t*, const tuttiOffer_t* offers, int count, int) {
  ++seen.asked;
  for (int i = 0; i < count; ++i) {
    const bool ring =
        offers[i].algorithm == tuttiAlgorithmRing && std::strcmp(offers[i].protocol, wanted_protocol) == 0;
    if (ring && offers[i].channels == 1) return i;
  }
  return -1;
}

tuttiExtension_t Tuner() {
  tuttiExtension_t hooks{};
  hooks.size = sizeof hooks;
  hooks.tuner = [] { return "of the test"; };
  hooks.openTuner = [](const tuttiCommFacts_t* facts, void**, char*, std::size_t) {
    ++seen.opened;
    seen.bus = facts->busId;
    return tuttiSuccess;
  };
  hooks.closeTuner = [](void*) { ++seen.closed; };
  hooks.choose = ChooseRing;
  hooks.wantsPlans = [] { return 1; };
  hooks.planned = [](int, const tuttiTunedCall_t*, const tuttiOffer_t* plan) {
    seen.planned += plan->algorithm == tuttiAlgorithmRing && plan->channels == 1 ? 1 : 0;
  };
  return hooks;
}

std::string LastPlan(tuttiComm_t comm) {
  std::array<char, 512> text{};
  EXPECT_TRUE(Ok(tuttiCommDescribeLastOperation(comm, text.data(), text.size())));
  return text.data();
}

TEST_F(Device, ATunerOnTopChooses) {
  const Case each{What::all_reduce, tuttiFloat32, tuttiSum, 4000, 0, false, 3};
  for (const bool threads : {true, false}) {
    RunRanks(2,
             [&](Rank& self) {
               const auto hooks = Tuner();
               const auto registered = tuttiExtend(&hooks);  // by the first thread of a process
               EXPECT_TRUE(registered == tuttiSuccess || (threads && registered == tuttiInvalidUsage));
               self.Meet();
               {
                 DeviceRank rank(self, 64 * KiB);
                 for (int i = 0; i < 3; ++i) ASSERT_EQ(rank.Run(each), "");
                 const auto plan = LastPlan(rank.comm());
                 EXPECT_NE(plan.find("ring, 1 channels"), std::string::npos) << plan;
                 EXPECT_NE(plan.find("bulk"), std::string::npos) << plan;
                 EXPECT_NE(plan.find("chosen by the tuner plug-in of the test"), std::string::npos) << plan;
               }
               self.Meet();
               const int ranks = threads ? 2 : 1;
               EXPECT_EQ(seen.opened, ranks);
               EXPECT_EQ(seen.closed, ranks);
               EXPECT_EQ(seen.asked, ranks) << "once for a plan";
               EXPECT_EQ(seen.planned, 3 * ranks);
               EXPECT_NE(seen.bus, 0U);
             },
             {.threads = threads});
  }
}

TEST_F(Device, RanksWhoseTunersDisagreeAreTold) {
  RunRanks(2, [](Rank& self) {
    if (self.rank() == 1) wanted_protocol = "line";
    const auto hooks = Tuner();
    EXPECT_TRUE(Ok(tuttiExtend(&hooks)));
    DeviceRank rank(self, 64 * KiB);
    const auto result = tuttiAllReduce(rank.arena().send(), rank.arena().receive(), 8, tuttiFloat, tuttiSum,
                                       rank.comm(), rank.stream());
    EXPECT_TRUE(Ok(rank.gpu().Synchronize(rank.stream())));
    tuttiResult_t told = tuttiSuccess;
    EXPECT_TRUE(Ok(tuttiCommGetAsyncError(rank.comm(), &told)));
    EXPECT_EQ(result == tuttiSuccess ? told : result, tuttiInvalidUsage);
    EXPECT_TRUE(
        Fails(tuttiBarrier(rank.comm(), rank.stream()), tuttiInvalidUsage, {"do not match", "chose differently"}));
    self.Meet();
  });
}

TEST_F(Device, CallsAreObservedUntilTheyAreEnqueued) {
  RunRanks(2, [](Rank& self) {
    tuttiExtension_t hooks{};
    hooks.size = sizeof hooks;
    hooks.observe = [](const tuttiCommFacts_t*) -> void* { return &seen; };
    hooks.unobserve = [](void*) { ++seen.closed; };
    hooks.callBegins = [](void* observer, const tuttiCall_t*) { return observer; };
    hooks.callReturns = [](void*) { ++seen.returned; };
    hooks.operationBegins = [](void*, const tuttiOffer_t*) { ++seen.begun; };
    hooks.operationEnds = [](void*) { ++seen.ended; };
    hooks.callForgotten = [](void*) { ++seen.forgotten; };
    EXPECT_TRUE(Ok(tuttiExtend(&hooks)));
    {
      const Case each{What::all_reduce, tuttiFloat32, tuttiSum, 100, 0, false, 3};
      DeviceRank rank(self, 64 * KiB);
      for (int i = 0; i < 3; ++i) ASSERT_EQ(rank.Run(each), "");
      EXPECT_EQ(seen.begun, 3);
      EXPECT_EQ(seen.returned, 3);
      EXPECT_EQ(seen.forgotten, 3) << "a call on a GPU is over when it was enqueued";
    }
    EXPECT_EQ(seen.closed, 1);
  });
}

}  // namespace
}  // namespace tutti::testing
