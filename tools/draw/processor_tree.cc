#include "tools/draw/processor_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/number_ranges.h"
#include "topology/graph/domains.h"

namespace tutti::tools {
namespace {

// The ranks that may run on one of `processors`.
std::vector<int> RanksOn(const std::vector<int>& processors, const std::vector<std::vector<int>>& processors_of_rank) {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < processors_of_rank.size(); ++rank) {
    const auto& own = processors_of_rank[rank];
    const bool here = std::any_of(own.begin(), own.end(), [&](int processor) {
      return std::binary_search(processors.begin(), processors.end(), processor);
    });
    if (here) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

std::string Line(const topology::Device& cpu, const std::string& cache, const std::vector<int>& processors,
                 const std::vector<std::vector<int>>& processors_of_rank) {
  const auto socket = cpu.package < 0 ? std::string() : fmt::format("socket {}, ", cpu.package);
  auto line = fmt::format("  {}{}{}: processors {}", socket, cpu.name, cache, NumberRanges(processors));
  const auto ranks = RanksOn(processors, processors_of_rank);
  if (!ranks.empty()) line += fmt::format(", ranks {}", NumberRanges(ranks));
  return line + "\n";
}

std::string Together(const topology::System& system, int host,
                     const std::vector<std::vector<int>>& processors_of_rank) {
  const auto domains = topology::DomainsOf(system, host, processors_of_rank);
  if (!domains) return "  The ranks form one group: no part of the host that is smaller has two ranks or more.\n";
  const std::set<int> used(domains->domain_of.begin(), domains->domain_of.end());
  return fmt::format("  The ranks form {} groups, one for each {}: two-level algorithms are considered.\n", used.size(),
                     NameOf(domains->kind));
}

}  // namespace

std::string ProcessorTree(const topology::System& system, int host,
                          const std::vector<std::vector<int>>& processors_of_rank) {
  std::string text = "Processors:\n";
  int cache = 0;
  for (const int index : system.All(topology::DeviceKind::cpu, host)) {
    const auto& cpu = system.devices[static_cast<std::size_t>(index)];
    if (cpu.caches.empty()) text += Line(cpu, "", cpu.cores, processors_of_rank);
    for (const auto& processors : cpu.caches)
      text += Line(cpu, fmt::format(", last-level cache {}", cache++), processors, processors_of_rank);
  }
  return processors_of_rank.empty() ? text : text + Together(system, host, processors_of_rank);
}

}  // namespace tutti::tools
