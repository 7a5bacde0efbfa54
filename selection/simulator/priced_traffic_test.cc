// What is priced is what runs: on each machine described in topology/testdata, each link carries the bytes that the price
// counts on it, and a host's NICs carry equal shares where no rank is special.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "algorithms/builders/records.h"
#include "base/error.h"
#include "selection/cost_model/cost_model.h"
#include "selection/cost_model/machine_of_system.h"
#include "selection/simulator/simulate.h"
#include "topology/graph/rails.h"
#include "topology/xml/xml.h"

namespace tutti::simulator {
namespace {

std::vector<std::string> Files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator("topology/testdata")) {
    if (entry.path().extension() == ".xml") files.push_back(entry.path().stem());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// The file's GPUs: enough that members stand for other ranks (representative_ranks.h), and no more.
constexpr std::size_t kMostGpus = 18;

class PricedTraffic : public ::testing::TestWithParam<std::string> {
 protected:
  const topology::System system_ = xml::ReadTopologyFile("topology/testdata/" + GetParam() + ".xml").system;
  const int gpus_ = static_cast<int>(std::min(system_.All(topology::DeviceKind::gpu, 0).size(), kMostGpus));

  bool CanBeJoined(int nodes) const {
    return gpus_ > 0 && (nodes == 1 || !system_.All(topology::DeviceKind::nic, 0).empty());
  }
  cost_model::Machine MachineOf(int nodes, const cost_model::Blocks& blocks = {}) const {
    return cost_model::MachineOfSystem(system_, nodes, gpus_, blocks);
  }
};

bool Any(const builders::Record&, schedule::Collective) { return true; }
bool RanksDoAlike(const builders::Record& record, schedule::Collective collective) {
  return record.SymmetryIn(collective) == builders::Symmetry::rotation && record.arranges(collective);
}

// Calls what(call, priced, runs) with the bytes over each link, for each such algorithm that could be chosen on the machine;
// returns how many. All blocks are equally long. Flags cross links; of flags in one GPU's memory the simulator knows nothing.
template <typename Which, typename What>
int EachCall(const cost_model::Machine& machine, int channels, const Which& which, const What& what) {
  cost_model::TuningContext tuning;
  tuning.nranks = machine.nranks();
  tuning.where = machine.rank_layout();
  tuning.one_host = machine.one_host();
  tuning.in_switch = machine.has_teams();
  tuning.one_launch = machine.one_memory();
  tuning.threads = 0;
  const auto protocol = machine.one_memory() ? ring::Protocol::bulk : ring::Protocol::inlined;
  int calls = 0;
  for (int c = 0; c < schedule::kScheduledCollectives; ++c) {
    const auto collective = static_cast<schedule::Collective>(c);
    for (const auto algorithm : builders::kAllAlgorithms) {
      if (!which(builders::RecordOf(algorithm), collective)) continue;
      if (!cost_model::WhyNot(algorithm, {collective}, tuning).empty()) continue;
      const cost_model::CostModel price(machine,
                                        *cost_model::RepresentativeRanks::Of(algorithm, tuning.Ask(collective)));
      const std::size_t block = ring::kCacheLine * static_cast<std::size_t>(channels * price.unit().channels);
      const SimulatedCall call{
          collective, algorithm, block * static_cast<std::size_t>(price.unit().pieces), channels, {protocol, block}};
      what(call, price.traffic().BytesOver(call.config.protocol, channels, static_cast<double>(block)),
           Simulate(machine, call).bytes_over);
      ++calls;
    }
  }
  return calls;
}

std::string Name(const SimulatedCall& call) {
  return fmt::format("{} by {}, {} channels", schedule::NameOf(call.collective), builders::NameOf(call.algorithm),
                     call.channels);
}

void ExpectPricedAsRun(const cost_model::Machine& machine, int channels) {
  const int calls =
      EachCall(machine, channels, Any, [&](const SimulatedCall& call, const auto& priced, const auto& runs) {
        for (int i = 0; i < machine.resources(); ++i) {
          const auto link = static_cast<std::size_t>(i);
          EXPECT_NEAR(priced[link], runs[link], 1e-6 * runs[link])
              << Name(call) << ", " << machine.nranks() << " ranks: node " << machine.NodeOfResource(i) << ", "
              << machine.resource(i).name;
        }
      });
  EXPECT_GE(calls, schedule::kScheduledCollectives);
}

TEST_P(PricedTraffic, IsWhatRuns) {
  for (const int nodes : {1, 2}) {
    if (!CanBeJoined(nodes)) {
      EXPECT_THROW(MachineOf(nodes), Error);
      continue;
    }
    for (const int channels : {1, 3}) ExpectPricedAsRun(MachineOf(nodes), channels);
    if (nodes > 1) ExpectPricedAsRun(MachineOf(nodes, {.bulk_between_hosts = true}), 1);
  }
}

// All ranks' data passes one memory, whether or not members stand for some of them.
TEST(PricedTrafficOfOneGpu, IsWhatRuns) {
  constexpr int kH100 = 90;
  constexpr double kBandwidth = 3352;
  for (const int ranks : {8, 17, 32}) {
    ExpectPricedAsRun(cost_model::MachineOfOneGpu(ranks, kH100, kBandwidth), 3);
  }
}

// Their latency and their bytes are bulk's, whatever the protocol inside hosts.
TEST(BulkBetweenHosts, IsPricedAndSimulated) {
  const auto system = xml::ReadTopologyFile("topology/testdata/dgxh100.xml").system;
  const auto times = [&](bool bulk, ring::Protocol protocol) {
    constexpr std::size_t kBlock = 4096;
    const auto machine = cost_model::MachineOfSystem(system, 2, 1, {.bulk_between_hosts = bulk});
    const schedule::ProtocolConfig config{protocol, kBlock};
    const auto ranks = cost_model::RepresentativeRanks::Of(
        tuttiAlgorithmRing, {schedule::Collective::all_reduce, 0, 2, 0, 1, &machine.rank_layout(), false});
    const double price = cost_model::CostModel(machine, *ranks).Microseconds({.block_bytes = kBlock, .config = config});
    const SimulatedCall call{schedule::Collective::all_reduce, tuttiAlgorithmRing, 2 * kBlock, 1, config};
    return std::pair(price, Simulate(machine, call).duration_us);
  };
  const auto bulk = times(true, ring::Protocol::bulk);
  for (const auto protocol : {ring::Protocol::line, ring::Protocol::inlined}) {
    EXPECT_EQ(times(true, protocol), bulk);
    EXPECT_LT(times(false, protocol).first, bulk.first);
    EXPECT_LT(times(false, protocol).second, bulk.second);
  }
}

// Where ranks do alike and know their nodes, each gives its messages to its NICs in turn.
TEST_P(PricedTraffic, IsSharedByTheNics) {
  if (!CanBeJoined(2)) GTEST_SKIP() << "it has no GPUs or no NICs";
  const auto machine = MachineOf(2);
  auto gpus = system_.All(topology::DeviceKind::gpu, 0);
  gpus.resize(static_cast<std::size_t>(gpus_));
  const auto nics_of = topology::NicsOfRanks(system_, 0, gpus);
  std::map<std::string, double> expected;  // of the ranks' parts, by link to the network
  std::size_t most = 1;
  for (int rank = 0; rank < gpus_; ++rank) {
    const auto& nics = nics_of[static_cast<std::size_t>(rank)];
    most = std::max(most, nics.size());
    for (const int nic : nics) {
      for (const topology::Link& link : system_.links) {
        if (link.from == nic && link.kind == topology::LinkKind::network)
          expected[system_.devices[nic].name + " -> " + system_.devices[link.to].name] +=
              1.0 / static_cast<double>(nics.size());
      }
    }
  }
  ASSERT_FALSE(expected.empty());
  const int channels = gpus_ * static_cast<int>(most);
  const int calls =
      EachCall(machine, channels, RanksDoAlike, [&](const SimulatedCall& call, const auto&, const auto& runs) {
        double all = 0;
        for (int i = 0; i < machine.resources() / 2; ++i) {
          if (expected.contains(machine.resource(i).name)) all += runs[static_cast<std::size_t>(i)];
        }
        EXPECT_GT(all, 0) << Name(call);
        for (int i = 0; i < machine.resources(); ++i) {
          const auto share = expected.find(machine.resource(i).name);
          if (share == expected.end()) continue;
          EXPECT_NEAR(runs[static_cast<std::size_t>(i)], all * share->second / gpus_, 1e-6 * all)
              << Name(call) << ": node " << machine.NodeOfResource(i) << ", " << share->first;
        }
      });
  EXPECT_GT(calls, 0);
}

INSTANTIATE_TEST_SUITE_P(On, PricedTraffic, ::testing::ValuesIn(Files()), [](const auto& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

}  // namespace
}  // namespace tutti::simulator
