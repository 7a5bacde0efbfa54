#include "topology/graph/domains.h"

#include <algorithm>
#include <map>
#include <set>

namespace tutti::topology {
namespace {

// The domain of every processor of the host; a processor is absent where its domain is not known.
std::map<int, int> DomainOfProcessors(const System& system, int host, DomainKind kind) {
  std::map<int, int> domain_of;
  int next = 0;
  std::map<int, int> packages;
  for (const int index : system.All(DeviceKind::cpu, host)) {
    const Device& cpu = system.devices[static_cast<std::size_t>(index)];
    if (kind == DomainKind::cache) {
      for (const auto& cache : cpu.caches) {
        for (const int processor : cache) domain_of[processor] = next;
        ++next;
      }
      continue;
    }
    int domain = next;
    if (kind == DomainKind::package) {
      if (cpu.package < 0) continue;
      domain = packages.emplace(cpu.package, next).first->second;
    }
    if (domain == next) ++next;
    for (const int processor : cpu.cores) domain_of[processor] = domain;
  }
  return domain_of;
}

// The domain that holds all the processors. nullopt: there is none, or no processor.
std::optional<int> CommonDomain(const std::map<int, int>& domain_of, const std::vector<int>& processors) {
  std::optional<int> common;
  for (const int processor : processors) {
    const auto found = domain_of.find(processor);
    if (found == domain_of.end() || (common && *common != found->second)) return std::nullopt;
    common = found->second;
  }
  return common;
}

}  // namespace

std::string_view NameOf(DomainKind kind) {
  switch (kind) {
    case DomainKind::cache: return "last-level cache";
    case DomainKind::numa_node: return "NUMA node";
    case DomainKind::package: break;
  }
  return "socket";
}

std::vector<int> ProcessorsOf(const System& system, int host) {
  std::vector<int> processors;
  for (const int cpu : system.All(DeviceKind::cpu, host)) {
    const auto& cores = system.devices[static_cast<std::size_t>(cpu)].cores;
    processors.insert(processors.end(), cores.begin(), cores.end());
  }
  std::sort(processors.begin(), processors.end());
  return processors;
}

std::vector<std::vector<int>> OneProcessorEach(const System& system, int host, int nranks) {
  const auto processors = ProcessorsOf(system, host);
  std::vector<std::vector<int>> of_ranks(static_cast<std::size_t>(nranks));
  for (std::size_t rank = 0; rank < of_ranks.size() && !processors.empty(); ++rank)
    of_ranks[rank] = {processors[rank % processors.size()]};
  return of_ranks;
}

std::optional<Domains> DomainsOf(const System& system, int host, std::span<const std::vector<int>> processors) {
  constexpr std::size_t kRanksInEach = 2;
  for (const DomainKind kind : {DomainKind::cache, DomainKind::numa_node, DomainKind::package}) {
    const auto domain_of = DomainOfProcessors(system, host, kind);
    Domains domains{kind, {}};
    for (const auto& each : processors) {
      const auto domain = CommonDomain(domain_of, each);
      if (!domain) break;
      domains.domain_of.push_back(*domain);
    }
    const std::set<int> used(domains.domain_of.begin(), domains.domain_of.end());
    if (domains.domain_of.size() == processors.size() && used.size() > 1 &&
        used.size() * kRanksInEach <= processors.size())
      return domains;
  }
  return std::nullopt;
}

}  // namespace tutti::topology
