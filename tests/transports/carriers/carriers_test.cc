// The carrier contract, over the carriers that every machine can run; tests/transports/verbs has the third.
#include "tests/transports/carriers/contract.h"
#include "transports/tcp/tcp.h"
#include "transports/ucx/ucx.h"

namespace tutti::testing {
namespace {

std::unique_ptr<Carrier> MakeTcp(int rank, const std::vector<int>& peers, const SecretKey& key,
                                 const AllGather& all_gather, CarrierEvents& events) {
  return std::make_unique<TcpCarrier>(rank, peers, key, OnLoopback(), all_gather, events);
}

std::unique_ptr<Carrier> MakeUcx(int rank, const std::vector<int>& peers, const SecretKey& key,
                                 const AllGather& all_gather, CarrierEvents& events) {
  return MakeUcxCarrier(rank, peers, key, OnLoopback(), all_gather, events);
}

class Carriers : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() != "ucx") return;
    const auto why = WhyNoUcx();
    if (!why.empty()) GTEST_SKIP() << why;
  }
  static Makers Of(std::size_t ranks) { return Makers(ranks, GetParam() == "ucx" ? Maker(MakeUcx) : Maker(MakeTcp)); }
};

TEST_P(Carriers, SlotsOfAllWiresBothWays) {
  constexpr int kChannels = 2;
  RunRanks(Of(2), kChannels, [](Rank& rank) { MoveAll(rank, kChannels); });
}
TEST_P(Carriers, FiveRanks) {
  RunRanks(Of(5), 1, [](Rank& rank) { MoveAll(rank, 1); });
}
TEST_P(Carriers, ARankThatDoesNotLookIsWaitedFor) { ARankThatDoesNotLookIsWaitedFor(Of(2)); }
TEST_P(Carriers, WhatComesWakesWhoSleeps) { WhatComesWakesWhoSleeps(Of(2)); }
TEST_P(Carriers, FailuresAndFarewellsAreHeard) { FailuresAndFarewellsAreHeard(Of(2)); }
TEST_P(Carriers, AKilledPeerIsMissedAtOnce) { AKilledPeerIsMissedAtOnce(Of(2)); }
TEST_P(Carriers, APeerWithAnotherSecretIsNotBelieved) { APeerWithAnotherSecretIsNotBelieved(Of(2)); }

INSTANTIATE_TEST_SUITE_P(Over, Carriers, ::testing::Values("tcp", "ucx"), [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace tutti::testing
