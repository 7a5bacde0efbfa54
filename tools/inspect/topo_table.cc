#include "tools/inspect/topo_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "topology/graph/capacity.h"
#include "topology/search/ring_search.h"
#include "topology/xml/xml.h"

namespace tutti::tools {
namespace {

struct Reference {
  int channels = 0;
  double bandwidth = 0;
};

using References = std::map<std::pair<std::string, bool>, Reference>;  // by file and "several hosts"

References ReadReferences(const std::string& path) {
  References references;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);  // column names
  while (std::getline(file, line)) {
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream row(line);
    std::string name;
    bool several = false;
    int domain = 0;
    Reference reference;
    row >> name >> several >> domain >> reference.channels >> reference.bandwidth;
    if (row && domain == 0) references.emplace(std::pair(name, several), reference);
  }
  return references;
}

// The kinds of links that the rings saturate, and that therefore limit them.
std::string FullLinks(const topology::System& system, const search::Rings& rings) {
  constexpr double kFull = 0.999;  // of a link's bandwidth; the rest is rounding
  std::vector<double> used(system.links.size(), 0);
  for (const search::Ring& ring : rings.rings) {
    for (const int link : ring.links) used[link] += rings.bandwidth;
  }
  std::set<std::string_view> kinds;
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (used[i] >= kFull * system.links[i].bandwidth) kinds.insert(topology::NameOf(system.links[i].kind));
  }
  return fmt::format("{}", fmt::join(kinds, ", "));
}

std::string Percent(double part, double whole) { return whole > 0 ? fmt::format("{:.0f} %", 100 * part / whole) : "-"; }

// "96 %", or "96 % (100 %)" if the cards' slots allow less than their ports.
std::string Shares(double total, double capacity, double reachable) {
  const std::string share = Percent(total, capacity);
  return reachable < capacity ? fmt::format("{} ({})", share, Percent(total, reachable)) : share;
}

std::string TableRow(const std::string& name, const xml::TopologyFile& file, bool several,
                     const References& references) {
  const topology::System& system = file.system;
  const search::Rings rings = several ? search::SearchClusterRings(system, 0) : search::SearchRings(system, 0);
  if (rings.rings.empty()) return "";
  const double capacity = several ? topology::PortCapacity(system, 0) : topology::RingCapacity(system, 0);
  const double reachable = several ? topology::ReachablePortCapacity(system, 0) : capacity;
  std::string reference = " | ";
  if (const auto found = references.find({name, several}); found != references.end()) {
    const auto& [channels, bandwidth] = found->second;
    reference = fmt::format("{} x {:.4g} | {}", channels, bandwidth, Shares(channels * bandwidth, capacity, reachable));
  }
  return fmt::format("| {}{} | {} | {} x {:.4g} | {:.4g} | {:.4g} | {} | {} | {} |\n", name,
                     file.notes.empty() ? "" : " *", several ? "several" : "one", rings.rings.size(), rings.bandwidth,
                     rings.total(), capacity, Shares(rings.total(), capacity, reachable), reference,
                     FullLinks(system, rings));
}

}  // namespace

std::string RingTable(const std::string& directory) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() == ".xml") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  const References references = ReadReferences(directory + "/graphs.csv");
  std::string table =
      "| file | hosts | rings x GB/s | total | capacity | share | NCCL: rings x GB/s | share | full |\n"
      "|---|---|--:|--:|--:|--:|--:|--:|---|\n";
  for (const auto& path : paths) {
    const xml::TopologyFile file = xml::ReadTopologyFile(path);
    for (const bool several : {false, true}) table += TableRow(path.stem(), file, several, references);
  }
  return table;
}

}  // namespace tutti::tools
