#include "tools/simulator/claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "algorithms/builders/records.h"
#include "base/files/files.h"
#include "base/report/chart.h"
#include "base/report/progress.h"
#include "selection/cost_model/machine_of_system.h"
#include "tools/simulator/simulated.h"
#include "topology/xml/xml.h"

namespace tutti::tools {
namespace {

constexpr std::size_t KiB = 1024;
constexpr std::size_t MiB = 1024 * KiB;

// Nodes with eight H100 and eight NDR ports; with one rank per node, its first GPU and port.
constexpr const char* kHost = "topology/testdata/dgxh100.xml";

// Enough for one GPU to fill its port: rings wait while each slot travels, trees send the next one during that time.
constexpr int kRingChannels = 8;
constexpr int kTreeChannels = 2;
constexpr schedule::ProtocolConfig kLarge{ring::Protocol::bulk, 512 * KiB};
constexpr schedule::ProtocolConfig kSmall{ring::Protocol::line, 8 * KiB};

void Save(const std::string& directory, const std::string& name, const report::Chart& chart) {
  WriteFile(fmt::format("{}/simulator-{}.svg", directory, name), report::Draw(chart));
}

// Trees count their channels in pairs.
simulator::SimulatedCall Call(tuttiAlgorithm_t algorithm, std::size_t bytes, int channels,
                              schedule::ProtocolConfig config) {
  const bool pairs = algorithm == tuttiAlgorithmDoubleBinaryTree || algorithm == tuttiAlgorithmTwoLevelTree;
  return {schedule::Collective::all_reduce, algorithm, bytes, pairs ? std::max(1, channels / 2) : channels, config};
}

// Bytes sent by the busiest rank, as a multiple of the buffer.
double BytesSent(const cost_model::Machine& machine, tuttiAlgorithm_t algorithm) {
  const auto bytes = static_cast<std::size_t>(machine.nranks()) * 64 * KiB;
  simulator::Timeline timeline;
  Run(machine, Call(algorithm, bytes, 1, kLarge), NodesStandIn::never, &timeline);
  std::vector<double> sent(static_cast<std::size_t>(machine.nranks()));
  for (const simulator::Timeline::Flow& flow : timeline.flows) sent[flow.from] += flow.bytes;
  return *std::max_element(sent.begin(), sent.end()) / static_cast<double>(bytes);
}

void DrawBytes(const topology::System& host, const std::string& directory) {
  report::Curve ring{"ring", {}, false};
  report::Curve formula{"2 (N - 1) / N"};
  report::Curve tree{"double binary tree"};
  report::Curve server{"parameter server"};
  report::Curve broadcast{"all-to-all broadcast"};
  for (int n = 2; n <= 64; n *= 2) {
    const cost_model::Machine machine = cost_model::MachineOfSystem(host, n, 1);
    ring.points.emplace_back(n, BytesSent(machine, tuttiAlgorithmRing));
    formula.points.emplace_back(n, 2.0 * (n - 1) / n);
    tree.points.emplace_back(n, BytesSent(machine, tuttiAlgorithmDoubleBinaryTree));
    server.points.emplace_back(n, BytesSent(machine, tuttiAlgorithmParameterServer));
    broadcast.points.emplace_back(n, BytesSent(machine, tuttiAlgorithmAllToAllBroadcast));
  }
  Save(directory, "bytes",
       {"all_reduce: what the busiest rank sends, in buffers",
        {{"buffers sent", {ring, formula, tree, server, broadcast}}, {"rings and trees", {ring, formula, tree}, false}},
        "ranks",
        false});
}

// Bandwidth once the pipeline is full: that of the second half of a message with enough chunks.
double SteadyBusBandwidth(const cost_model::Machine& machine, tuttiAlgorithm_t algorithm) {
  constexpr std::size_t kChunks = 64;  // in each channel, several for every step down a tree of 24,576
  const bool ring = algorithm == tuttiAlgorithmRing;
  const int channels = ring ? kRingChannels : kTreeChannels;
  // A ring has one block, and so its chunks, per rank.
  const std::size_t bytes = static_cast<std::size_t>(channels) * kLarge.chunk_bytes *
                            (ring ? static_cast<std::size_t>(machine.nranks()) : kChunks);
  const double once =
      Run(machine, Call(algorithm, bytes, channels, kLarge), NodesStandIn::beyond_64_ranks).result.duration_us;
  const double twice =
      Run(machine, Call(algorithm, 2 * bytes, channels, kLarge), NodesStandIn::beyond_64_ranks).result.duration_us;
  return AlgorithmBandwidth(bytes, twice - once) * BusFactor(schedule::Collective::all_reduce, machine.nranks());
}

void DrawScaling(const topology::System& host, const std::string& directory) {
  report::Panel time{"time of 8 bytes (us)"};
  report::Panel bandwidth{"bus bandwidth of large messages (GB/s)", {}, false};
  for (const auto& [algorithm, name] :
       {std::pair(tuttiAlgorithmRing, "ring"), std::pair(tuttiAlgorithmDoubleBinaryTree, "double binary tree")}) {
    report::Curve times{name};
    report::Curve bandwidths{name};
    for (const int n : {8, 32, 128, 512, 2048, 8192, 24'576}) {
      const cost_model::Machine machine = cost_model::MachineOfSystem(host, n, 1);
      times.points.emplace_back(
          n, Run(machine, Call(algorithm, 8, 1, kSmall), NodesStandIn::beyond_64_ranks).result.duration_us);
      bandwidths.points.emplace_back(n, SteadyBusBandwidth(machine, algorithm));
    }
    time.curves.push_back(std::move(times));
    bandwidth.curves.push_back(std::move(bandwidths));
  }
  Save(directory, "scaling",
       {"all_reduce on 8 to 24,576 ranks, one H100 and one NDR port each", {time, bandwidth}, "ranks", false});
}

void DrawTwoLevel(const topology::System& host, const std::string& directory) {
  constexpr int kChannels = 8;  // so that flat rings use every port
  report::Chart chart{"all_reduce on nodes of 8 H100 with NVLink and 8 NDR ports"};
  for (const int nodes : {2, 16, 128}) {
    const cost_model::Machine machine = cost_model::MachineOfSystem(host, nodes);
    report::Panel panel{fmt::format("bus bandwidth on {} nodes (GB/s)", nodes)};
    for (const auto algorithm :
         {tuttiAlgorithmTwoLevel, tuttiAlgorithmTwoLevelTree, tuttiAlgorithmRing, tuttiAlgorithmDoubleBinaryTree}) {
      report::Curve curve{std::string(builders::NameOf(algorithm))};
      for (std::size_t bytes = 64 * KiB; bytes <= 256 * MiB; bytes *= 4) {
        const Outcome outcome =
            Fastest({machine},
                    {schedule::Collective::all_reduce, {algorithm}, bytes, kChannels, ring::Protocol::bulk, 512 * KiB});
        curve.points.emplace_back(bytes, AlgorithmBandwidth(bytes, outcome.result.duration_us) *
                                             BusFactor(schedule::Collective::all_reduce, machine.nranks()));
      }
      panel.curves.push_back(std::move(curve));
    }
    chart.panels.push_back(std::move(panel));
  }
  Save(directory, "two-level", chart);
}

void DrawServer(const topology::System& host, const std::string& directory) {
  constexpr std::size_t kBytes = 16 * MiB;
  report::Panel time{"time of 16 MiB (us)"};
  report::Panel bandwidth{"algorithm bandwidth (GB/s)"};
  for (const auto algorithm : {tuttiAlgorithmRing, tuttiAlgorithmDoubleBinaryTree, tuttiAlgorithmParameterServer,
                               tuttiAlgorithmAllToAllBroadcast}) {
    report::Curve times{std::string(builders::NameOf(algorithm))};
    report::Curve bandwidths = times;
    for (int n = 2; n <= 128; n *= 2) {
      const cost_model::Machine machine = cost_model::MachineOfSystem(host, n, 1);
      const double us = Run(machine, Call(algorithm, kBytes, kTreeChannels, kLarge), NodesStandIn::beyond_64_ranks)
                            .result.duration_us;
      times.points.emplace_back(n, us);
      bandwidths.points.emplace_back(n, AlgorithmBandwidth(kBytes, us));
    }
    time.curves.push_back(std::move(times));
    bandwidth.curves.push_back(std::move(bandwidths));
  }
  Save(directory, "parameter-server",
       {"all_reduce of 16 MiB, one H100 and one NDR port a rank", {time, bandwidth}, "ranks", false});
}

}  // namespace

void DrawClaims(const std::string& directory) {
  const topology::System host = xml::ReadTopologyFile(kHost).system;
  const std::array charts = {&DrawBytes, &DrawScaling, &DrawTwoLevel, &DrawServer};
  report::Progress progress(static_cast<int>(charts.size()), report::Progress::Steps::unlike);
  for (const auto draw : charts) {
    progress.Step("drawing charts");
    draw(host, directory);
  }
}

}  // namespace tutti::tools
