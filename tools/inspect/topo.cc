#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/files.h"
#include "executors/host/kernels/simd_target.h"
#include "tools/commands.h"
#include "tools/draw/drawing.h"
#include "tools/draw/matrix.h"
#include "tools/draw/processor_tree.h"
#include "tools/inspect/topo_table.h"
#include "tools/json.h"
#include "topology/detect/detect.h"
#include "topology/graph/capacity.h"
#include "topology/graph/domains.h"
#include "topology/graph/paths.h"
#include "topology/graph/rails.h"
#include "topology/search/ring_search.h"
#include "topology/search/tree_search.h"
#include "topology/xml/xml.h"

namespace tutti::tools {
namespace {

// More hosts than any cluster has; catches typing errors.
constexpr int kMostNodes = 1'000'000;

struct TopoOptions {
  std::string file;
  std::string host;
  int ranks = 0;
  int nodes = 1;
  std::string svg;
  std::string xml;
  bool rings = false;
  std::string table;
  bool json = false;
};

// The rings found for one host, or for several of its kind, and their capacity.
struct Answer {
  std::string heading;
  search::Rings rings;
  double capacity;
  std::string of;  // whose capacity
};

std::string Summary(const Answer& answer) {
  const search::Rings& rings = answer.rings;
  std::string text = fmt::format("{}: {} x {:.4g} GB/s = {:.4g} GB/s", answer.heading, rings.rings.size(),
                                 rings.bandwidth, rings.total());
  if (answer.capacity > 0) {
    text += fmt::format(", {:.0f} % of {:.4g} {}", 100 * rings.total() / answer.capacity, answer.capacity, answer.of);
  }
  return text;
}

std::vector<Answer> Answers(const topology::System& system, int nodes) {
  std::vector<Answer> answers;
  search::Rings alone = search::SearchRings(system, 0);
  const bool gpus = !system.All(topology::DeviceKind::gpu).empty();
  const std::string ends = gpus ? "that a GPU can send" : "that a NUMA node can send";
  if (!alone.rings.empty())
    answers.push_back({"Rings on one host", std::move(alone), topology::RingCapacity(system, 0), ends});
  if (nodes == 1) return answers;
  search::Rings cluster = search::SearchClusterRings(system, 0);
  if (cluster.rings.empty()) Throw(tuttiInvalidArgument, "--nodes {}: this machine has no network card", nodes);
  answers.push_back({fmt::format("Rings over {} hosts", nodes), std::move(cluster), topology::PortCapacity(system, 0),
                     "of the network ports"});
  return answers;
}

void PrintRings(const topology::System& system, const search::Rings& rings) {
  for (std::size_t r = 0; r < rings.rings.size(); ++r) {
    const search::Ring& ring = rings.rings[r];
    std::vector<std::string> stops;
    if (ring.nic_in >= 0) stops.push_back(system.devices[ring.nic_in].name);
    for (const int device : ring.order) stops.push_back(system.devices[device].name);
    if (ring.nic_out >= 0) stops.push_back(system.devices[ring.nic_out].name);
    const bool turns = ring.nic_in != ring.nic_out;
    fmt::print("  {:>2}: {}{}\n", r, fmt::join(stops, " "), turns ? "  (every second host backwards)" : "");
  }
}

void PrintRails(const topology::System& system) {
  const std::vector<int> ends = topology::RingEnds(system, 0);
  const std::vector<std::vector<int>> nics = topology::NearestNics(system, 0);
  std::vector<std::string> rails;
  for (std::size_t k = 0; k < ends.size(); ++k) {
    std::vector<std::string> names;
    for (const int nic : nics[k]) names.push_back(system.devices[nic].name);
    if (!names.empty()) rails.push_back(fmt::format("{}: {}", system.devices[ends[k]].name, fmt::join(names, " ")));
  }
  if (!rails.empty()) fmt::print("Nearest NICs: {}\n", fmt::join(rails, ", "));
}

xml::TopologyFile Found(const TopoOptions& options) {
  if (!options.file.empty()) return xml::ReadTopologyFile(options.file);
  if (!options.host.empty())
    return {detect::DetectHost({.hwloc_synthetic = options.host, .sysfs = "", .nvml = ""}), {}};
  return {detect::DetectHost(), {}};
}

std::string TitleOf(const TopoOptions& options) {
  if (!options.file.empty()) return std::filesystem::path(options.file).stem().string();
  return options.host.empty() ? "This machine" : options.host;
}

// The bandwidths of rings and trees: of each, and of all together.
template <typename Found>
nlohmann::ordered_json JsonOfBandwidth(const Found& found, std::size_t count) {
  return {{"count", count}, {"each_gbs", found.bandwidth}, {"total_gbs", found.total()}};
}

void PrintAsJson(const topology::System& system, const TopoOptions& options, const std::vector<std::string>& notes) {
  nlohmann::ordered_json json = {{"name", TitleOf(options)}};
  for (const auto& device : system.devices) {
    json["devices"].push_back({{"name", device.name},
                               {"kind", topology::NameOf(device.kind)},
                               {"bus_id", device.bus_id},
                               {"processors", device.cores}});
  }
  for (const auto& link : system.links) {
    json["links"].push_back({{"from", system.devices[link.from].name},
                             {"to", system.devices[link.to].name},
                             {"kind", topology::NameOf(link.kind)},
                             {"gbs", link.bandwidth},
                             {"latency_us", link.latency}});
  }
  json["rings"] = nlohmann::ordered_json::array();
  for (const Answer& answer : Answers(system, options.nodes)) {
    auto rings = JsonOfBandwidth(answer.rings, answer.rings.rings.size());
    rings["over"] = answer.heading;
    rings["bound_gbs"] = answer.capacity;
    for (const auto& ring : answer.rings.rings) {
      auto order = nlohmann::ordered_json::array();
      for (const int device : ring.order) order.push_back(system.devices[device].name);
      rings["orders"].push_back(std::move(order));
    }
    json["rings"].push_back(std::move(rings));
  }
  const search::SpanningTrees trees = search::SearchTrees(system, 0, search::RailRoots(system, 0));
  if (!trees.trees.empty()) json["trees"] = JsonOfBandwidth(trees, trees.trees.size());
  json["notes"] = notes;
  PrintJson(json);
}

void WriteFiles(const TopoOptions& options, const topology::System& system, const std::vector<RingPicture>& pictures) {
  if (!options.svg.empty()) WriteFile(options.svg, DrawHost(system, 0, TitleOf(options), pictures));
  if (!options.xml.empty()) WriteFile(options.xml, xml::WriteTopology(system));
}

void Run(const TopoOptions& options) {
  if (!options.table.empty()) {
    fmt::print("{}", RingTable(options.table));
    return;
  }
  const bool here = options.file.empty() && options.host.empty();
  const xml::TopologyFile found = Found(options);
  const topology::System& system = found.system;
  topology::CheckSearchable(system);
  std::vector<RingPicture> pictures;
  for (const Answer& answer : Answers(system, options.nodes)) pictures.push_back({Summary(answer), answer.rings});
  WriteFiles(options, system, pictures);
  if (options.json) return PrintAsJson(system, options, found.notes);
  fmt::print("{}\n\n{}\n", TitleOf(options), TopologyMatrix(system, 0));
  fmt::print("{}\n", ProcessorTree(system, 0, topology::OneProcessorEach(system, 0, options.ranks)));
  if (here) fmt::print("SIMD target of host reductions: {}\n", host_kernels::SimdTarget());
  PrintRails(system);
  for (const auto& [summary, rings] : pictures) {
    fmt::print("{}\n", summary);
    if (options.rings) PrintRings(system, rings);
  }
  const search::SpanningTrees trees = search::SearchTrees(system, 0, search::RailRoots(system, 0));
  if (!trees.trees.empty()) {
    fmt::print("Trees on one host: {} x {:.4g} GB/s = {:.4g} GB/s\n", trees.trees.size(), trees.bandwidth,
               trees.total());
  }
  if (!found.notes.empty()) fmt::print("\nNotes:\n  - {}\n", fmt::join(found.notes, "\n  - "));
}

}  // namespace

void AddTopo(CLI::App& app) {
  const auto options = std::make_shared<TopoOptions>();
  CLI::App* topo = app.add_subcommand("topo", "show a machine's devices and links, and the rings over them");
  topo->add_option("FILE,--topo", options->file, "topology file in NCCL's XML format; default: this machine")
      ->check(CLI::ExistingFile);
  topo->add_option("--host", options->host,
                   "a host by hwloc's synthetic description, like \"package:2 l3:4 core:8 pu:1\"")
      ->excludes("--topo");
  constexpr int kMostRanks = 32'000;
  topo->add_option(
          "--ranks", options->ranks,
          "also show the processors of this many ranks, if each is pinned to the next one (as tutti-bench does)")
      ->check(CLI::Range(1, kMostRanks));
  topo->add_option("--nodes", options->nodes, "also search for rings over this many identical hosts")
      ->check(CLI::Range(1, kMostNodes));
  topo->add_flag("--rings", options->rings, "print each ring");
  topo->add_option("--svg", options->svg, "draw the machine and its rings into this file");
  topo->add_option("--xml", options->xml, "write the description into this file");
  topo->add_option("--table", options->table,
                   "instead: print a table of the rings of all topology files in this directory")
      ->check(CLI::ExistingDirectory);
  AddJsonFlag(*topo, options->json);
  topo->callback([options] { Run(*options); });
}

}  // namespace tutti::tools
