// The transport contract, over the transports that every machine can run; tests/transports/verbs has the one that is
// left.
#include <cstdlib>

#include "base/all_gather.h"
#include "tests/transports/conformance/contract.h"
#include "transports/plugin/plugin.h"
#include "transports/tcp/tcp.h"
#include "transports/ucx/ucx.h"

namespace tutti::testing {
namespace {

std::unique_ptr<progress::NetworkTransport> MakeTcp(int rank, const std::vector<int>& peers, const auth::SecretKey& key,
                                                    const AllGather& all_gather,
                                                    progress::NetworkTransportEvents& events) {
  return std::make_unique<tcp::TcpTransport>(rank, peers, key, OnLoopback(), all_gather, events);
}

std::unique_ptr<progress::NetworkTransport> MakeUcx(int rank, const std::vector<int>& peers, const auth::SecretKey& key,
                                                    const AllGather& all_gather,
                                                    progress::NetworkTransportEvents& events) {
  return ucx::kNetwork.make(rank, peers, key, OnLoopback(), {}, all_gather, events);
}

Maker PluginMaker(const std::string& version) {
  return [version](int rank, const std::vector<int>& peers, const auth::SecretKey& key, const AllGather& all_gather,
                   progress::NetworkTransportEvents& events) {
    auto settings = OnLoopback();
    settings.net_plugin = TUTTI_TEST_NETS "/libnccl-net-test" + version + ".so";
    return plugin::kNetwork.make(rank, peers, key, settings, {}, all_gather, events);
  };
}

constexpr std::string_view kPlugin = "plugin_";  // and the version; "_slow" behind it: see SetUp()

class NetworkTransports : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    // The plug-in connects slowly, moves little at a time and often asks to be asked again (../plugin/test_net.h).
    const bool slow = GetParam().ends_with("_slow");
    setenv("TUTTI_TEST_NET", slow ? "polls=30,nulls=3,piece=3000" : "", 1);
    if (GetParam() != "ucx") return;
    const auto why = ucx::kNetwork.why_not(Settings());
    if (!why.empty()) GTEST_SKIP() << why;
  }
  static Makers Of(std::size_t ranks) { return Makers(ranks, MakerOf(GetParam())); }

 private:
  static Maker MakerOf(const std::string& kind) {
    if (kind == "tcp") return MakeTcp;
    if (kind == "ucx") return MakeUcx;
    const auto version = kind.substr(kPlugin.size());
    return PluginMaker(version.substr(0, version.find('_')));
  }
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

INSTANTIATE_TEST_SUITE_P(Over, NetworkTransports,
                         ::testing::Values("tcp", "ucx", "plugin_v8", "plugin_v9", "plugin_v10", "plugin_v11",
                                           "plugin_v10_slow"),
                         [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace tutti::testing
