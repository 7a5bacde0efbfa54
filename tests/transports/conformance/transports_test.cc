// The transport contract, over the transports that every machine can run; tests/transports/verbs has the third.
#include "tests/transports/conformance/contract.h"
#include "transports/tcp/tcp.h"
#include "transports/ucx/ucx.h"

namespace tutti::testing {
namespace {

std::unique_ptr<progress::NetworkTransport> MakeTcp(int rank, const std::vector<int>& peers, const auth::SecretKey& key,
                                                    const shm::AllGather& all_gather,
                                                    progress::NetworkTransportEvents& events) {
  return std::make_unique<tcp::TcpTransport>(rank, peers, key, OnLoopback(), all_gather, events);
}

std::unique_ptr<progress::NetworkTransport> MakeUcx(int rank, const std::vector<int>& peers, const auth::SecretKey& key,
                                                    const shm::AllGather& all_gather,
                                                    progress::NetworkTransportEvents& events) {
  return ucx::MakeUcxTransport(rank, peers, key, OnLoopback(), all_gather, events);
}

class NetworkTransports : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() != "ucx") return;
    const auto why = ucx::WhyNoUcx();
    if (!why.empty()) GTEST_SKIP() << why;
  }
  static Makers Of(std::size_t ranks) { return Makers(ranks, GetParam() == "ucx" ? Maker(MakeUcx) : Maker(MakeTcp)); }
};

TEST_P(NetworkTransports, SlotsOfAllProtocolsBothWays) {
  constexpr int kChannels = 2;
  RunRanks(Of(2), kChannels, [](Rank& rank) { MoveAll(rank, kChannels); });
}
TEST_P(NetworkTransports, FiveRanks) {
  RunRanks(Of(5), 1, [](Rank& rank) { MoveAll(rank, 1); });
}
TEST_P(NetworkTransports, ARankThatDoesNotLookIsWaitedFor) { ARankThatDoesNotLookIsWaitedFor(Of(2)); }
TEST_P(NetworkTransports, WhatComesWakesWhoSleeps) { WhatComesWakesWhoSleeps(Of(2)); }
TEST_P(NetworkTransports, FailuresAndFarewellsAreHeard) { FailuresAndFarewellsAreHeard(Of(2)); }
TEST_P(NetworkTransports, AKilledPeerIsMissedAtOnce) { AKilledPeerIsMissedAtOnce(Of(2)); }
TEST_P(NetworkTransports, APeerWithAnotherSecretIsNotBelieved) { APeerWithAnotherSecretIsNotBelieved(Of(2)); }

INSTANTIATE_TEST_SUITE_P(Over, NetworkTransports, ::testing::Values("tcp", "ucx"),
                         [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace tutti::testing
