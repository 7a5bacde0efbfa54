#include "selection/tuner/tuner.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <set>
#include <string>

#include "algorithms/builders/records.h"
#include "algorithms/msccl/program.h"
#include "base/error.h"
#include "selection/cost_model/host_machine.h"
#include "selection/tuner/calibration.h"
#include "selection/tuner/explain.h"

namespace tutti::tuner {
namespace {

constexpr std::size_t kCapacity = 200'000;

cost_model::TuningContext On(int nranks) {
  cost_model::TuningContext tuning;
  tuning.nranks = nranks;
  tuning.max_channels = 2;
  tuning.threads = 1;
  tuning.bulk_capacity = kCapacity;
  return tuning;
}

cost_model::Machine Host(int nranks, int cores = 2, const cost_model::HostTraits& traits = {}) {
  return cost_model::HostMachine(cost_model::DefaultHostCosts(cores, traits), schedule::ArrangeEvenly(nranks, 1));
}

SelectionTable TableFor(const cost_model::TuningContext& tuning, const cost_model::HostTraits& traits = {}) {
  const cost_model::Machine machine = Host(tuning.nranks, 2, traits);
  SelectionTable table;
  Tuner(machine, tuning).Complete(table);
  return table;
}

constexpr cost_model::HostTraits kNoLimit{.cache_bytes = std::size_t{1} << 40};

// The chunk of the plan that is expected to be the fastest.
std::size_t ChunkOn(const cost_model::Machine& machine, const cost_model::TuningContext& tuning,
                    schedule::Collective collective, std::size_t bytes) {
  return Tuner(machine, tuning).Compare({collective}, bytes).front().candidate.config.chunk_bytes;
}

std::size_t CapacityOf(ring::Protocol protocol) {
  return protocol == ring::Protocol::line      ? ring::kLineShape.capacity
         : protocol == ring::Protocol::inlined ? ring::kInlineShape.capacity
                                               : kCapacity;
}

// For any question, the plan can be built and fits its slots.
TEST(Select, AlwaysAnswersWithSomethingThatWorks) {
  for (const int nranks : {1, 2, 3, 8, 20, 65}) {
    for (const int forced : {0, 1, 2, 3, 4, 5, 6, 7, 8}) {
      cost_model::TuningContext tuning = On(nranks);
      if (forced != 0)
        cost_model::ParseForcedAlgorithms(std::string(builders::NameOf(static_cast<tuttiAlgorithm_t>(forced))), nranks,
                                          tuning.forced);
      const auto table = TableFor(tuning);
      for (const auto& kind : cost_model::AllKinds()) {
        for (const std::size_t bytes : {0, 1, 48, 49, 1456, 1457, 16'384, 32'769, 1 << 20, 1 << 30}) {
          const auto& candidate = table.At(kind, bytes).candidate;
          ASSERT_EQ(cost_model::WhyNot(candidate.algorithm, kind, tuning), "");
          builders::ScheduleRequest request = tuning.Ask(kind.collective);
          request.channels = candidate.channels;
          const auto schedule = builders::Build(candidate.algorithm, request);
          ASSERT_TRUE(schedule.has_value()) << cost_model::ToString(kind) << ' ' << nranks << ' ' << forced;
          const auto channels = static_cast<int>(schedule->channels.size());
          ASSERT_LE(channels, tuning.max_channels);
          const auto block = cost_model::BlockBytes(schedule->pieces(), bytes);
          const auto config = cost_model::Fitting(candidate.config, block, channels);
          ASSERT_GT(config.chunk_bytes, 0U);
          ASSERT_LE(config.chunk_bytes, CapacityOf(config.protocol));
          ASSERT_TRUE(config.chunk_bytes % ring::kCacheLine == 0 || block <= channels * config.chunk_bytes) << bytes;
          if (forced != 0 && builders::Supports(static_cast<tuttiAlgorithm_t>(forced), kind.collective, nranks)) {
            const bool passed_over =
                kind.pairwise &&
                Has(builders::RecordOf(static_cast<tuttiAlgorithm_t>(forced)).passes_blocks_on, kind.collective);
            EXPECT_EQ(candidate.algorithm == forced, !passed_over) << cost_model::ToString(kind) << ' ' << nranks;
          }
        }
      }
    }
  }
}

// The pieces of a buffer, and the size of a rank's block, decide which protocol carries it.
TEST(Select, ProgramsServeTheirCollective) {
  const msccl::Program program = msccl::ReadProgram("algorithms/msccl/testdata/ring_all_gather.xml");
  EXPECT_EQ(program.ranks.front().pieces(), 2);
  cost_model::TuningContext tuning = On(4);
  EXPECT_NE(cost_model::WhyNot(tuttiAlgorithmProgram, {schedule::Collective::all_gather}, tuning), "");
  const auto c = static_cast<std::size_t>(schedule::Collective::all_gather);
  tuning.max_channels = 1;
  tuning.programs[c] = &program.ranks;
  tuning.forced.algorithm[c] = tuttiAlgorithmProgram;
  const auto table = TableFor(tuning);
  EXPECT_EQ(SelectionTable::FromJson(table.ToJson(tuning), "here", tuning), table);
  for (const auto& entry : table.Row({schedule::Collective::all_gather})) {
    EXPECT_EQ(entry.candidate.algorithm, tuttiAlgorithmProgram);
    EXPECT_EQ(entry.candidate.channels, 1);
  }
  EXPECT_NE(table.At({schedule::Collective::all_reduce}, 1000).candidate.algorithm, tuttiAlgorithmProgram);
  // Two pieces of a rank's block travel by themselves: each fits a slot.
  const auto& config = table.At({schedule::Collective::all_gather}, 2 * 1408).candidate.config;
  EXPECT_EQ(config, (schedule::ProtocolConfig{ring::Protocol::inlined, ring::kInlineShape.capacity}));
}

// Also where prices jump, as an all-to-all's do when its slots outgrow the cache: there the plan that was best just
// below a power of two took 3.6 times as long at it.
TEST(Select, EveryPowerOfTwoHasAPlanNearTheBest) {
  for (const int nranks : {2, 4, 8, 16}) {
    for (const std::size_t cache : {std::size_t{8} << 20, std::size_t{16} << 20, std::size_t{32} << 20}) {
      cost_model::TuningContext tuning = On(nranks);
      tuning.cma = true;
      const cost_model::Machine machine = Host(nranks, 2, {.cache_bytes = cache});
      Tuner tuner(machine, tuning);
      for (const auto& kind : cost_model::AllKinds()) {
        if (kind.pairwise) continue;
        SelectionTable table;
        table.Set(kind, tuner.MakeRow(kind));
        constexpr double kNear = 1.25;
        for (std::size_t bytes = 8; bytes <= 16 << 20; bytes *= 2) {
          const auto best = tuner.Compare(kind, bytes).front();
          EXPECT_LE(tuner.Microseconds(table.At(kind, bytes).candidate, kind, bytes), kNear * best.us)
              << cost_model::ToString(kind) << ' ' << nranks << ' ' << bytes << ' ' << cache;
        }
      }
    }
  }
}

TEST(Select, ForcesPerCollective) {
  cost_model::TuningContext tuning = On(4);
  cost_model::ParseForcedAlgorithms("ring,broadcast:binomial", 4, tuning.forced);
  const auto table = TableFor(tuning);
  EXPECT_EQ(table.At({schedule::Collective::all_reduce}, 1 << 20).candidate.algorithm, tuttiAlgorithmRing);
  EXPECT_EQ(table.At({schedule::Collective::broadcast}, 1 << 20).candidate.algorithm, tuttiAlgorithmBinomial);
  EXPECT_NE(table.At({schedule::Collective::all_to_all}, 1 << 20).candidate.algorithm, tuttiAlgorithmRing)
      << "has no such form";
}

TEST(Select, RefusesImpossibleForces) {
  cost_model::Forced forced;
  const auto refused = [&](const std::string& text) {
    try {
      cost_model::ParseForcedAlgorithms(text, 4, forced);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refused("quickest").find("algorithm \"quickest\" is unknown; known are direct, two_shot, ring"),
            std::string::npos);
  EXPECT_NE(refused("all_sum:ring").find("collective \"all_sum\" is unknown; known are all_reduce"), std::string::npos);
  EXPECT_NE(refused("all_to_all:ring").find("ring does not support all_to_all on 4 ranks; available are direct, bruck"),
            std::string::npos);
}

TEST(Select, HonoursForcedProtocolChunkAndChannels) {
  cost_model::TuningContext tuning = On(4);
  tuning.threads = 2;
  tuning.forced.chunk_bytes = 4096;
  tuning.forced.channels = 2;
  const auto forced = TableFor(tuning).At({schedule::Collective::all_gather}, 1 << 20).candidate;
  EXPECT_EQ(forced.config, (schedule::ProtocolConfig{ring::Protocol::bulk, 4096}));
  EXPECT_EQ(forced.channels, 2);
  tuning.forced = {};
  tuning.forced.protocol = ring::Protocol::bulk;
  EXPECT_EQ(TableFor(tuning).At({schedule::Collective::all_gather}, 8).candidate.config.protocol, ring::Protocol::bulk);
}

TEST(Select, DeterministicMeansAProvenAlgorithm) {
  cost_model::TuningContext tuning = On(4);
  tuning.deterministic = true;
  cost_model::ParseForcedAlgorithms("ring", 4, tuning.forced);
  const auto table = TableFor(tuning);
  for (const std::size_t bytes : {8, 1 << 20}) {
    const auto algorithm = table.At({schedule::Collective::all_reduce}, bytes).candidate.algorithm;
    EXPECT_TRUE(algorithm == tuttiAlgorithmDirect || algorithm == tuttiAlgorithmTwoShot);
  }
  EXPECT_EQ(table.At({schedule::Collective::all_gather}, 8).candidate.algorithm, tuttiAlgorithmRing)
      << "nothing is added up";
}

TEST(Select, LowPrecisionIsRoundedOnce) {
  const auto table = TableFor(On(40));
  for (std::size_t bytes = 1; bytes <= 1 << 30; bytes *= 4) {
    const auto algorithm = table.At({schedule::Collective::all_reduce, true}, bytes).candidate.algorithm;
    EXPECT_TRUE(algorithm == tuttiAlgorithmDirect || algorithm == tuttiAlgorithmTwoShot) << bytes;
  }
}

TEST(Select, BlocksThatOnlyAPairKnowsTravelInBulkByOnePlan) {
  const cost_model::Kind pairwise{schedule::Collective::all_to_all, false, true};
  const auto table = TableFor(On(4));
  EXPECT_EQ(table.At({schedule::Collective::all_to_all}, 8).candidate.config.protocol, ring::Protocol::line);
  EXPECT_EQ(table.Row(pairwise).size(), 1U);
  EXPECT_EQ(table.At(pairwise, 8).candidate.config.protocol, ring::Protocol::bulk);
}

// How a large block is reached follows from its price, unless the user says so.
TEST(Select, FetchesLargeBlocksWhereTheSystemAllowsIt) {
  constexpr cost_model::Kind kind{schedule::Collective::all_to_all};
  cost_model::TuningContext tuning = On(4);
  cost_model::HostTraits traits{.fast_string_copies = true};
  const auto fetches = [&](std::size_t bytes) { return TableFor(tuning, traits).At(kind, bytes).candidate.config.cma; };
  EXPECT_FALSE(fetches(1 << 20));
  tuning.cma = true;
  EXPECT_FALSE(fetches(2048));
  EXPECT_TRUE(fetches(1 << 20));
  traits.fast_string_copies = false;
  EXPECT_FALSE(fetches(4 << 20));
  traits.fast_string_copies = true;
  const auto table = TableFor(tuning, traits);
  EXPECT_EQ(SelectionTable::FromJson(table.ToJson(tuning), "here", tuning), table);
  tuning.forced.protocol = ring::Protocol::bulk;
  tuning.forced.cma = true;
  EXPECT_TRUE(fetches(2048));
  tuning.forced.cma = false;
  EXPECT_FALSE(fetches(1 << 20));
}

// `direct` fetches what the peer's user wrote, `recursive` in its second exchange also what the peer has stored a moment before,
// which its core still holds.
TEST(Select, FetchesInputsRatherThanFreshResults) {
  constexpr cost_model::Kind kind{schedule::Collective::all_gather};
  cost_model::TuningContext tuning = On(4);
  tuning.cma = true;
  const cost_model::Machine machine = Host(4, 4, {.fast_string_copies = true});
  Tuner tuner(machine, tuning);
  const auto us = [&](tuttiAlgorithm_t algorithm) {
    constexpr std::size_t kBytes = 64 << 10;
    return tuner.Microseconds({algorithm, 1, {ring::Protocol::bulk, kBytes, true}}, kind, kBytes);
  };
  EXPECT_LT(us(tuttiAlgorithmDirect) * 1.1, us(tuttiAlgorithmRecursive));
}

// With `direct`, each of two ranks adds everything; with `two_shot`, it adds half.
TEST(Select, LowPrecisionCostsMostWhereEachRankAddsAll) {
  const cost_model::TuningContext tuning = On(2);
  const cost_model::Machine machine = Host(2);
  Tuner tuner(machine, tuning);
  const auto more = [&](tuttiAlgorithm_t algorithm) {
    constexpr std::size_t kBytes = 1 << 20;
    const cost_model::Candidate way{algorithm, 1, {ring::Protocol::bulk, kCapacity}};
    return tuner.Microseconds(way, {schedule::Collective::all_reduce, true}, kBytes) -
           tuner.Microseconds(way, {schedule::Collective::all_reduce}, kBytes);
  };
  EXPECT_GT(more(tuttiAlgorithmTwoShot), 0);
  EXPECT_GT(more(tuttiAlgorithmDirect), 1.5 * more(tuttiAlgorithmTwoShot));
}

TEST(Select, ThreadsGetChannels) {
  cost_model::TuningContext tuning = On(2);
  EXPECT_EQ(TableFor(tuning).At({schedule::Collective::all_reduce}, 1 << 24).candidate.channels, 1);
  tuning.threads = 2;
  EXPECT_EQ(TableFor(tuning).At({schedule::Collective::all_reduce}, 1 << 24).candidate.channels, 2);
  // Waking the helper takes longer than one thread for these.
  for (const std::size_t bytes : {8, 64 << 10})
    EXPECT_EQ(TableFor(tuning).At({schedule::Collective::all_reduce}, bytes).candidate.channels, 1);
}

TEST(Select, IdleCoresGiveThreads) {
  EXPECT_EQ(cost_model::ThreadsFor(2, 2), 1);
  EXPECT_EQ(cost_model::ThreadsFor(2, 5), 1);
  EXPECT_EQ(cost_model::ThreadsFor(7, 3), 2);
  EXPECT_EQ(cost_model::ThreadsFor(64, 2), cost_model::kFewestChannels) << "a channel for each thread";
}

// The slots of all ranks of a core have to stay in its cache.
TEST(Select, RanksThatShareACoreTakeShorterChunks) {
  constexpr int kRanks = 8;
  constexpr std::size_t kBytes = 64 << 20;
  cost_model::TuningContext tuning = On(kRanks);
  tuning.bulk_capacity = 512 << 10;
  for (const auto collective :
       {schedule::Collective::all_reduce, schedule::Collective::all_gather, schedule::Collective::reduce_scatter}) {
    std::size_t last = 0;
    for (const int cores : {1, 2, 8}) {
      const auto chunk = ChunkOn(Host(kRanks, cores, kNoLimit), tuning, collective, kBytes);
      EXPECT_GT(chunk, last) << schedule::NameOf(collective) << " with " << cores << " cores";
      last = chunk;
    }
  }
}

// Every pair of ranks has its ring. The slots of all of them stay in the cache that the ranks share.
TEST(Select, AllSlotsTogetherStayInTheLastCache) {
  constexpr int kRanks = 8;
  cost_model::TuningContext tuning = On(kRanks);
  tuning.bulk_capacity = 512 << 10;
  constexpr std::size_t kCache = 16 << 20;
  constexpr std::size_t kBlock = 128 << 10;
  tuning.stream_bytes = kCache;
  constexpr auto kCollective = schedule::Collective::all_to_all;
  const auto chunk = ChunkOn(Host(kRanks, 2, {.cache_bytes = kCache}), tuning, kCollective, kBlock);
  const auto rings = static_cast<std::size_t>(kRanks * (kRanks - 1));
  const auto depth = static_cast<std::size_t>(schedule::SlotDepth(ring::Protocol::bulk));
  EXPECT_LE(chunk * rings * depth, kCache / 2);
  EXPECT_GT(ChunkOn(Host(kRanks, 2, kNoLimit), tuning, kCollective, kBlock), chunk);
}

// Slots that refer do not bound chunks, but 32-bit lengths do; and a GPU has room for only some lanes.
TEST(Select, GpusBoundChunksAndChannels) {
  cost_model::TuningContext tuning = On(2);
  tuning.threads = 0;
  tuning.max_channels = 96;
  tuning.most_lanes = 33;
  tuning.gpu_slots = {true, true, 1024, 16 * 1024, 64 * 1024, true};
  EXPECT_EQ(cost_model::ChunkCapacity(ring::Protocol::bulk, tuning, true), cost_model::kLongestChunk);
  EXPECT_LE(cost_model::kLongestChunk, std::numeric_limits<std::uint32_t>::max());
  EXPECT_EQ(cost_model::ChunkCapacity(ring::Protocol::bulk, tuning, false), 64 * 1024);
  EXPECT_EQ(cost_model::ChunkCapacity(ring::Protocol::line, tuning, true), 1024);
  EXPECT_EQ(cost_model::ChunkCapacity(ring::Protocol::inlined, tuning, true), 16 * 1024);
  constexpr std::size_t kBlock = std::size_t{64} << 20;
  int most = 0;
  std::size_t longest = 0;
  for (const bool refers : {false, true}) {
    longest = 0;
    for (const auto& way : cost_model::WaysToMove(tuttiAlgorithmTwoShot, {schedule::Collective::all_reduce}, tuning,
                                                  kBlock, {.lanes = 3, .refers = refers})) {
      most = std::max(most, way.channels);
      longest = std::max(longest, way.config.chunk_bytes);
    }
    EXPECT_EQ(most, 33 / 3);
    EXPECT_EQ(longest > 64 * 1024, refers);
  }
}

// Forced or not, lines of 128 bytes are for GPUs that keep them whole.
TEST(Select, GpusTakeLinesOnlyWhereTheyAreWhole) {
  cost_model::TuningContext tuning = On(2);
  tuning.threads = 0;
  tuning.max_channels = 24;
  const auto protocols = [&] {
    std::set<ring::Protocol> all;
    for (const auto& way : cost_model::WaysToMove(tuttiAlgorithmRing, {schedule::Collective::all_reduce}, tuning,
                                                  std::size_t{1} << 20, {})) {
      all.insert(way.config.protocol);
    }
    return all;
  };
  using Protocols = std::set<ring::Protocol>;
  for (const bool whole : {true, false}) {
    tuning.gpu_slots = {true, whole, 8 * 1024, whole ? 16 * 1024U : 0, 64 * 1024, false};
    tuning.forced.protocol.reset();
    EXPECT_EQ(protocols().contains(ring::Protocol::inlined), whole);
    tuning.forced.protocol = ring::Protocol::inlined;
    EXPECT_EQ(protocols(), Protocols{whole ? ring::Protocol::inlined : ring::Protocol::bulk});
  }
}

TEST(Select, TwoLevelsAreForSeveralNodes) {
  cost_model::TuningContext tuning = On(16);
  const cost_model::Kind all_reduce{schedule::Collective::all_reduce};
  EXPECT_EQ(cost_model::WhyNot(tuttiAlgorithmTwoLevel, all_reduce, tuning), "needs several nodes; there is one");
  EXPECT_EQ(cost_model::WhyImpossible(tuttiAlgorithmTwoLevel, all_reduce, tuning), "") << "but it may be forced";
  tuning.where = schedule::ArrangeEvenly(16, 2);
  EXPECT_EQ(cost_model::WhyNot(tuttiAlgorithmTwoLevel, all_reduce, tuning), "");
}

TEST(Select, ThreadsShareTheWorkNotTheAnswer) {
  const cost_model::TuningContext tuning = On(24);
  const cost_model::Machine machine = Host(24);
  SelectionTable table;
  Tuner(machine, tuning).Complete(table, 3);
  EXPECT_EQ(table, TableFor(tuning));
}

TEST(Select, TablesSurviveJson) {
  const cost_model::TuningContext tuning = On(8);
  const auto table = TableFor(tuning);
  EXPECT_EQ(SelectionTable::FromJson(table.ToJson(tuning), "here", tuning), table);
}

TEST(Select, RefusesBrokenTables) {
  const cost_model::TuningContext tuning = On(8);
  const auto refused = [&](const std::string& text) {
    try {
      SelectionTable::FromJson(text, "file", tuning);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string head = R"({"tutti_selection": 1, "ranks": 8, "nodes": 1, "rows": [)";
  const auto row = [&](const std::string& entry) {
    return head + R"({"collective": "all_reduce", "entries": [)" + entry + "]}]}";
  };
  const std::string good =
      R"({"from_bytes": 0, "algorithm": "ring", "channels": 1, "protocol": "bulk", "chunk_bytes": 64})";
  EXPECT_EQ(refused(row(good)), "");
  // Version 0.1 wrote "wire".
  EXPECT_EQ(refused(row(R"({"from_bytes": 0, "algorithm": "ring", "channels": 1, "wire": "bulk", "chunk_bytes": 64})")),
            "");
  EXPECT_EQ(refused("[]"), "file: a list of 0 where an object is expected");
  EXPECT_EQ(refused(R"({"tutti_selection": 1, "ranks": 4, "nodes": 1, "rows": []})"),
            "file: it is for 4 ranks on 1 nodes, but this communicator has 8 on 1");
  EXPECT_EQ(refused(row("")), "file: rows[0]: all_reduce has no entries");
  EXPECT_EQ(refused(row(good + "," + good)),
            "file: rows[0].entries[1]: the entries of all_reduce must start at 0 and ascend; this one is 0");
  EXPECT_EQ(
      refused(row(R"({"from_bytes": 0, "algorithm": "bruck", "channels": 1, "protocol": "bulk", "chunk_bytes": 64})")),
      "file: rows[0].entries[0]: bruck cannot be used for all_reduce: it has no all_reduce");
  EXPECT_EQ(
      refused(row(R"({"from_bytes": 0, "algorithm": "ring", "channels": 9, "protocol": "bulk", "chunk_bytes": 64})")),
      "file: rows[0].entries[0]: \"channels\" is 9; it takes a whole number from 1 to 2");
  EXPECT_EQ(refused(row(R"({"from_bytes": -1, "algorithm": "ring"})")),
            "file: rows[0].entries[0]: \"from_bytes\" is -1; it takes a whole number from 0 to 18446744073709551615");
  EXPECT_EQ(
      refused(row(R"({"from_bytes": 0, "algorithm": "ring", "channels": 1, "protocol": "line", "chunk_bytes": 40})")),
      "file: rows[0].entries[0]: \"chunk_bytes\" is 40, which is not a multiple of 64");
  EXPECT_EQ(
      refused(row(
          R"({"from_bytes": 0, "algorithm": "ring", "channels": 1, "protocol": "line", "chunk_bytes": 48, "cma": true})")),
      "file: rows[0].entries[0]: protocol line carries its data; \"cma\" takes protocol bulk");
}

TEST(Explain, NamesEveryAlgorithm) {
  const cost_model::TuningContext tuning = On(4);
  const cost_model::Machine machine = Host(4);
  Tuner tuner(machine, tuning);
  const auto chosen = tuner.Compare({schedule::Collective::all_reduce}, 1 << 20).front().candidate;
  const auto text = Explain(tuner, {schedule::Collective::all_reduce}, 1 << 20, chosen);
  for (int i = tuttiAlgorithmNone + 1; i < tuttiNumAlgorithms; ++i) {
    EXPECT_NE(text.find(builders::NameOf(static_cast<tuttiAlgorithm_t>(i))), std::string::npos) << text;
  }
  EXPECT_NE(text.find("chosen\n"), std::string::npos) << text;
  EXPECT_NE(text.find("bruck: has no all_reduce"), std::string::npos) << text;
}

TEST(Explain, TellsHowBlocksAreReachedAndWhatTheOtherWayCosts) {
  cost_model::TuningContext tuning = On(4);
  tuning.cma = true;
  const cost_model::Machine machine = Host(4, 2, {.fast_string_copies = true});
  Tuner tuner(machine, tuning);
  constexpr cost_model::Kind kind{schedule::Collective::all_to_all};
  const auto told = [&](std::size_t bytes) {
    return Explain(tuner, kind, bytes, tuner.Compare(kind, bytes).front().candidate);
  };
  EXPECT_NE(told(1 << 20).find("bulk by process_vm_readv: chosen"), std::string::npos) << told(1 << 20);
  EXPECT_NE(told(1 << 20).find("the same, but blocks are copied into slots and out of them: "), std::string::npos)
      << told(1 << 20);
}

// The current directory may be anybody's.
TEST(Calibration, IsNotReadFromTheCurrentDirectory) {
  const auto path = [](const char* cache, const char* home) {
    setenv("XDG_CACHE_HOME", cache, 1);
    setenv("HOME", home, 1);
    return DefaultCalibrationPath();
  };
  const std::string home_before = std::getenv("HOME") != nullptr ? std::getenv("HOME") : "";
  EXPECT_TRUE(path("/cache", "/home").starts_with("/cache/tutti/"));
  EXPECT_TRUE(path("", "/home").starts_with("/home/.cache/tutti/"));
  EXPECT_TRUE(path("cache", "/home").starts_with("/home/.cache/tutti/"));
  EXPECT_EQ(path("", ""), "");
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", home_before.c_str(), 1);
}

}  // namespace
}  // namespace tutti::tuner
