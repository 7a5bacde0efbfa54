#include "tools/draw/matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/number_ranges.h"
#include "topology/graph/link_constants.h"
#include "topology/graph/paths.h"
#include "topology/graph/rails.h"

namespace tutti::tools {
namespace {

constexpr std::string_view kLegend = R"(
Legend:

  X    = itself
  SYS  = by way of the link between CPUs (UPI, QPI, Infinity Fabric)
  PHB  = by way of a CPU's PCI host bridge
  PXB  = by way of several PCI switches, and no CPU
  PIX  = by way of one PCI switch at most
  NV#  = over # NVLinks
  NVB  = over NVLinks, by way of another GPU
)";

struct Row {
  int device;
  std::string label;
};

std::vector<Row> RowsOf(const topology::System& system, int host) {
  const auto labelled = [&](std::vector<int> devices, std::string_view prefix) {
    std::stable_sort(devices.begin(), devices.end(),
                     [&](int a, int b) { return system.devices[a].number < system.devices[b].number; });
    std::vector<Row> rows;
    for (const int device : devices)
      rows.push_back({device, fmt::format("{}{}", prefix, system.devices[device].number)});
    return rows;
  };
  const bool gpus = !system.All(topology::DeviceKind::gpu, host).empty();
  std::vector<Row> rows = labelled(topology::RingEnds(system, host), gpus ? "GPU" : "NUMA");
  for (Row& nic : labelled(system.All(topology::DeviceKind::nic, host), "NIC")) rows.push_back(std::move(nic));
  return rows;
}

std::string Cell(const topology::Device& from, const topology::Path& path) {
  if (path.path_class == topology::PathClass::LOC) return " X";
  if (path.path_class == topology::PathClass::NVL) return fmt::format("NV{}", NvlinkCount(from, path.bandwidth));
  if (path.path_class >= topology::PathClass::NET) return "-";
  return std::string(topology::NameOf(path.path_class));
}

// Aligns rows of cells; each column is as wide as its widest cell.
std::string Align(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows) {
    for (std::size_t k = 0; k < row.size(); ++k) widths[k] = std::max(widths[k], row[k].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t k = 0; k < row.size(); ++k) line += fmt::format("{:<{}}", row[k], widths[k] + 2);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace

int NvlinkCount(const topology::Device& gpu, double bandwidth) {
  return static_cast<int>(std::lround(bandwidth / topology::NvlinkBandwidth(gpu.sm, 1)));
}

std::string TopologyMatrix(const topology::System& system, int host) {
  const std::vector<Row> rows = RowsOf(system, host);
  if (rows.empty()) return "";
  const std::vector<int> cpus = system.All(topology::DeviceKind::cpu, host);
  std::vector<std::vector<std::string>> cells = {{""}};
  for (const Row& row : rows) cells[0].push_back(row.label);
  cells[0].insert(cells[0].end(), {"CPU affinity", "NUMA affinity"});
  std::string nics;
  for (const Row& row : rows) {
    const topology::Device& device = system.devices[row.device];
    const std::vector<topology::Path> paths = topology::PathsFrom(system, row.device);
    std::vector<std::string> line = {row.label};
    for (const Row& other : rows) line.push_back(Cell(device, paths[other.device]));
    const std::vector<int> near =
        device.kind == topology::DeviceKind::cpu ? std::vector<int>{row.device} : topology::Nearest(paths, cpus);
    if (device.kind == topology::DeviceKind::nic) {
      nics += fmt::format("  {}: {}, {} Gbit/s\n", row.label, device.name, device.speed_gbit);
      line.insert(line.end(), {"", ""});
    } else if (near.empty()) {
      line.insert(line.end(), {"N/A", "N/A"});
    } else {
      const topology::Device& cpu = system.devices[near.front()];
      line.insert(line.end(), {NumberRanges(cpu.cores), fmt::format("{}", cpu.number)});
    }
    cells.push_back(std::move(line));
  }
  std::string text = Align(cells);
  text += kLegend;
  if (!nics.empty()) text += "\nNICs:\n\n" + nics;
  return text;
}

}  // namespace tutti::tools
