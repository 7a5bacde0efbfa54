#include "selection/cost_model/cost_model.h"

#include <gtest/gtest.h>

#include <limits>

namespace tutti::cost_model {
namespace {

// One rank a node; every rank has a port of 10 GB/s each way and 5 us on each side.
Machine Cluster(int nodes, int ranks_per_node = 1) {
  Costs costs;
  costs.operation_us = 3;
  costs.step_us = 1;
  costs.executor_bandwidth = {{kAnySize, 100}};
  NodeType type;
  type.resources = {{"out", 10}, {"in", 10}};
  const auto n = static_cast<std::size_t>(ranks_per_node);
  type.local.assign(n, std::vector<Route>(n, {{}, {1, 1, 1}, false}));
  type.outward.assign(n, {{{0}, {5, 5, 5}, true}});
  type.inward.assign(n, {{{1}, {5, 5, 5}, true}});
  return {{type}, std::vector<int>(nodes, 0), schedule::ArrangeEvenly(nodes * ranks_per_node, nodes), costs};
}

CostModel CostModelOf(tuttiAlgorithm_t algorithm, schedule::Collective collective, const Machine& machine) {
  const schedule::RankLayout& where = machine.rank_layout();
  return {machine, *RepresentativeRanks::Of(algorithm, {collective, 0, machine.nranks(), 0, 1, &where})};
}

Load Bulk(std::size_t block, std::size_t chunk, int channels = 1) {
  return {.block_bytes = block, .footprint = 0, .channels = channels, .config = {ring::Protocol::bulk, chunk}};
}

// A step takes 1 us and 1 us for each 100,000 bytes it reads or writes; the network 10 us and 100 us for 1 MB.
constexpr std::size_t kMB = 1'000'000;
constexpr double kSend = 1 + 2 * 10;
constexpr double kNetwork = 10 + 100;

TEST(CostModel, RingBroadcastIsAChain) {
  const Machine machine = Cluster(3);
  const CostModel cost_model = CostModelOf(tuttiAlgorithmRing, schedule::Collective::broadcast, machine);
  // Root: reads, stores and sends; the second passes on; the third stores.
  const double forward = 1 + 3 * 10;
  EXPECT_DOUBLE_EQ(cost_model.Microseconds(Bulk(kMB, kMB)), 3 + forward + kNetwork + forward + kNetwork + kSend);
  // Each further chunk keeps the busiest link for 100 us.
  EXPECT_DOUBLE_EQ(cost_model.Microseconds(Bulk(3 * kMB, kMB)) - cost_model.Microseconds(Bulk(kMB, kMB)), 2 * 100);
}

TEST(CostModel, RingAllGatherTakesAHopForEveryOtherRank) {
  for (const int n : {2, 5, 16}) {
    const Machine machine = Cluster(n);
    const CostModel cost_model = CostModelOf(tuttiAlgorithmRing, schedule::Collective::all_gather, machine);
    EXPECT_DOUBLE_EQ(cost_model.Microseconds(Bulk(kMB, kMB)), 3 + (1 + 3 * 10) * (n - 1) + kNetwork * (n - 1) + kSend)
        << n;
  }
}

// The price is the same whether all ranks are built or only those that stand for the others.
TEST(CostModel, AFewStandForMany) {
  for (const auto algorithm : {tuttiAlgorithmRing, tuttiAlgorithmRecursive}) {
    const Machine some = Cluster(16);
    const Machine many = Cluster(32);
    const auto of = [&](const Machine& machine) {
      return CostModelOf(algorithm, schedule::Collective::all_gather, machine).Microseconds(Bulk(1000, 1000));
    };
    ASSERT_TRUE(RepresentativeRanks::Of(algorithm, {schedule::Collective::all_gather, 0, 16})->complete());
    ASSERT_EQ(RepresentativeRanks::Of(algorithm, {schedule::Collective::all_gather, 0, 32})->members().size(), 1U);
    const double hop = 10 + 1.02 + 1000e-4;
    if (algorithm == tuttiAlgorithmRing) {
      EXPECT_NEAR(of(many) - of(some), 16 * (hop + 0.01), 1e-6);
    } else {
      EXPECT_LT(of(many), 2 * of(some) + 2 * hop) << "blocks, not hops, are what doubles";
    }
  }
}

// Each of the log n exchanges crosses at the port's full rate: a rank sends to others one after the other.
TEST(CostModel, ARankAloneHasItsPort) {
  for (const int nodes : {4, 8, 16, 32}) {
    const Machine machine = Cluster(nodes);
    const double us = CostModelOf(tuttiAlgorithmRecursiveDoubling, schedule::Collective::all_reduce, machine)
                          .Microseconds(Bulk(kMB, kMB));
    const double exchange = kSend + kNetwork + 20;  // the other one reads the slot, and stores the sum
    EXPECT_NEAR(us, std::log2(nodes) * exchange, 20) << nodes;
  }
}

// Four ranks of a node send a chunk each through its port at the same time, at each of three hops.
TEST(CostModel, RanksOfANodeShareItsPortAtEachHop) {
  const Machine machine = Cluster(4, 4);
  const double us =
      CostModelOf(tuttiAlgorithmTwoLevel, schedule::Collective::broadcast, machine).Microseconds(Bulk(kMB, kMB));
  EXPECT_GT(us, 3 * 4 * 100);
  EXPECT_LT(us, 3 * (4 * 100 + 10 + 4 * kSend + 60));  // with the steps at each hop
}

TEST(CostModel, RanksOfANodeShareItsPort) {
  const Machine alone = Cluster(20);
  const Machine pairs = Cluster(10, 2);
  const auto all_to_all = [](const Machine& machine) {
    return CostModelOf(tuttiAlgorithmDirect, schedule::Collective::all_to_all, machine).Microseconds(Bulk(kMB, kMB));
  };
  // 19 blocks of 100 us each through one port; of two ranks, 2 x 18.
  EXPECT_NEAR(all_to_all(alone), 1900, 200);
  EXPECT_NEAR(all_to_all(pairs), 3600, 200);
}

// Channels begin together: the link carries all their first chunks before the last one's reader goes on.
TEST(CostModel, FirstChunksOfAllChannelsShareTheNetwork) {
  const Machine machine = Cluster(2);
  const CostModel cost_model = CostModelOf(tuttiAlgorithmRing, schedule::Collective::broadcast, machine);
  constexpr double kRoot = 1 + 3 * 10;
  for (const int channels : {1, 2, 5}) {
    EXPECT_DOUBLE_EQ(cost_model.Microseconds(Bulk(channels * kMB, kMB, channels)),
                     3 + kRoot + 10 + channels * 100 + kSend)
        << channels;
  }
}

// Moving data within a node takes no time. `latency`: us of each half of a way between nodes.
Machine OneRankOnEachNode(int ranks, Costs costs, double latency) {
  costs.executor_bandwidth = {{kAnySize, 0}};
  NodeType type;
  type.local.assign(1, std::vector<Route>(1));
  type.outward.assign(1, std::vector<Route>(1, {{}, {latency, latency, latency}, true}));
  type.inward = type.outward;
  return {{type}, std::vector<int>(static_cast<std::size_t>(ranks), 0), schedule::ArrangeEvenly(ranks, ranks), costs};
}

TEST(CostModel, ProxiesPassOneMessageAfterTheOther) {
  Costs costs;
  costs.message_us = 4;
  constexpr int kRanks = 5;
  const Machine machine = OneRankOnEachNode(kRanks, costs, 1);
  const CostModel chain = CostModelOf(tuttiAlgorithmRing, schedule::Collective::broadcast, machine);
  EXPECT_DOUBLE_EQ(chain.Microseconds(Bulk(64, 64)), (kRanks - 1) * (2 + 2 * 4)) << "two proxies a hop";
  EXPECT_DOUBLE_EQ(chain.Microseconds(Bulk(640, 64)) - chain.Microseconds(Bulk(64, 64)), 9 * 2 * 4)
      << "of each chunk a proxy passes one in and one on";
  const CostModel all_to_all = CostModelOf(tuttiAlgorithmDirect, schedule::Collective::all_to_all, machine);
  EXPECT_DOUBLE_EQ(all_to_all.Microseconds(Bulk(64, 64)), 4 * 4 * 2) << "four out, four in";
}

// On hosts there is no proxy. Partners of a recursive all-gather send two blocks in one message.
TEST(CostModel, ThreadsPayForTheirMessagesAndForTheirBytes) {
  Costs costs;
  costs.cores = 1;
  costs.message_us = 4;
  costs.message_bandwidth = 1;
  const Machine machine = OneRankOnEachNode(4, costs, 0);
  constexpr double kBytesUs = 6 * 0.064;  // three blocks out, three in
  const CostModel direct = CostModelOf(tuttiAlgorithmDirect, schedule::Collective::all_to_all, machine);
  EXPECT_DOUBLE_EQ(direct.Microseconds(Bulk(64, 64)), 6 * 4 + kBytesUs);
  const CostModel recursive = CostModelOf(tuttiAlgorithmRecursive, schedule::Collective::all_gather, machine);
  EXPECT_DOUBLE_EQ(recursive.Microseconds(Bulk(64, 64)), 4 * 4 + kBytesUs);
}

TEST(CostModel, ChannelsBeginOneAfterTheOther) {
  Costs costs;
  costs.channel_skew_us = 7;
  costs.executor_bandwidth = {{kAnySize, 0}};
  NodeType type;
  type.local.assign(2, std::vector<Route>(2, {{}, {1, 1, 1}, false}));
  type.outward.resize(2);
  type.inward.resize(2);
  const Machine machine({type}, {0}, schedule::ArrangeEvenly(2, 1), costs);
  const CostModel cost_model = CostModelOf(tuttiAlgorithmRing, schedule::Collective::broadcast, machine);
  EXPECT_DOUBLE_EQ(cost_model.Microseconds(Bulk(4096, 1024, 4)) - cost_model.Microseconds(Bulk(1024, 1024, 1)), 3 * 7);
}

TEST(CostModel, GrowsWithBytesAndShrinksWithBandwidth) {
  const Machine machine = Cluster(7);
  for (const auto algorithm : {tuttiAlgorithmRing, tuttiAlgorithmDoubleBinaryTree, tuttiAlgorithmRecursive}) {
    const CostModel cost_model = CostModelOf(algorithm, schedule::Collective::all_reduce, machine);
    double last = 0;
    for (std::size_t bytes = 64; bytes < (1 << 28); bytes *= 2) {
      const double us = cost_model.Microseconds(Bulk(bytes, 1 << 17));
      EXPECT_GE(us, last);
      last = us;
    }
  }
}

// One copy by the reader instead of two, at a price for each call and page.
TEST(CostModel, AFetchCostsACallItsPagesAndOneCopy) {
  Costs costs;
  costs.operation_us = 1;
  costs.step_us = 1;
  costs.executor_bandwidth = {{kAnySize, 100}};
  costs.cores = 2;
  costs.fetch_us = 3;
  costs.fetch_page_us = 0.5;
  NodeType type;
  type.local.assign(2, std::vector<Route>(2, {{}, {0, 0, 4}, false}));
  type.outward.resize(2);
  type.inward.resize(2);
  const Machine machine({type}, {0}, schedule::ArrangeEvenly(2, 1), costs);
  const CostModel cost_model = CostModelOf(tuttiAlgorithmDirect, schedule::Collective::all_to_all, machine);
  constexpr std::size_t kPages = 100;
  constexpr std::size_t kBytes = kPages * 4096;
  const double copy = 2 * kBytes / 100e3;
  Load load = Bulk(kBytes, kBytes);
  // The own block, the block for the peer into a slot, the peer's block out of one.
  EXPECT_DOUBLE_EQ(cost_model.Microseconds(load), 1 + 3 * (1 + copy));
  load.config.cma = true;
  // The writer makes a reference. The reader fetches, and the writer waits until it hears so.
  EXPECT_DOUBLE_EQ(cost_model.Microseconds(load), 1 + (1 + copy) + 1 + (1 + 3 + kPages * 0.5 + copy) + 4);
}

// A copy past the caches does not read the destination's lines first. The kernel's copy for a fetch does.
TEST(CostModel, StoringPastTheCachesSavesCopiesButNotFetches) {
  Costs costs;
  costs.executor_bandwidth = {{kAnySize, 10}};
  costs.streamed_bandwidth = 20;
  costs.crossing_bandwidth = {{kAnySize, 0}};  // what is read from a slot costs nothing
  costs.cores = 1;
  NodeType type;
  type.local.assign(1, std::vector<Route>(1));
  type.outward.resize(1);
  type.inward.resize(1);
  const Machine machine({type}, {0}, schedule::ArrangeEvenly(1, 1), costs);
  const CostModel cost_model = CostModelOf(tuttiAlgorithmDirect, schedule::Collective::all_gather, machine);
  Load load = Bulk(kMB, kMB);
  const double copy = 2 * kMB / 10e3;
  EXPECT_DOUBLE_EQ(cost_model.Microseconds(load), copy);
  load.streamed = true;
  EXPECT_DOUBLE_EQ(cost_model.Microseconds(load), copy / 2);
  load.config.cma = true;
  EXPECT_DOUBLE_EQ(cost_model.Microseconds(load), copy);
}

// A sum in a type of 8 or 16 bits converts what it reads, from memory and from slots alike. A copy does not.
TEST(CostModel, LowPrecisionCostsArithmetic) {
  Costs costs;
  costs.executor_bandwidth = {{kAnySize, 10}};
  costs.low_precision_bandwidth = 20;
  costs.cores = 2;
  NodeType type;
  type.local.assign(2, std::vector<Route>(2, {{}, {0, 0, 0}, false}));
  type.outward.resize(2);
  type.inward.resize(2);
  const Machine machine({type}, {0}, schedule::ArrangeEvenly(2, 1), costs);
  const auto more = [&](schedule::Collective collective) {
    const CostModel cost_model = CostModelOf(tuttiAlgorithmDirect, collective, machine);
    Load load = Bulk(kMB, kMB);
    const double full = cost_model.Microseconds(load);
    load.low_precision = true;
    return cost_model.Microseconds(load) - full;
  };
  EXPECT_DOUBLE_EQ(more(schedule::Collective::all_reduce), 2 * kMB / 20e3);
  EXPECT_DOUBLE_EQ(more(schedule::Collective::all_gather), 0);
}

TEST(CostModel, WhoSharesACoreTakesTurns) {
  Costs costs;
  costs.operation_us = 1;
  costs.step_us = 1;
  costs.executor_bandwidth = {{kAnySize, 100}};
  costs.yield_us = 2;
  costs.cores = 2;
  NodeType type;
  type.local.assign(8, std::vector<Route>(8, {{}, {0, 0, 0}, false}));
  type.outward.resize(8);
  type.inward.resize(8);
  const Machine machine({type}, {0}, schedule::ArrangeEvenly(8, 1), costs);
  const CostModel cost_model = CostModelOf(tuttiAlgorithmDirect, schedule::Collective::all_reduce, machine);
  // Four ranks a core: everything takes four times as long, and between post and sum every rank has a turn.
  EXPECT_DOUBLE_EQ(cost_model.Microseconds(Bulk(0, 64)), 4 * 1 + 4 * 1 + 4 * 2 + 4 * 1);
}

}  // namespace
}  // namespace tutti::cost_model
