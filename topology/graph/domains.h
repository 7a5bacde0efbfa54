// The parts of a host within which cores reach each other's data fastest: those that share a last-level cache, a NUMA
// node or a socket.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "topology/graph/system.h"

namespace tutti::topology {

enum class DomainKind : std::uint8_t { cache, numa_node, package };  // from the innermost
std::string_view NameOf(DomainKind kind);                            // "last-level cache"

struct Domains {
  DomainKind kind = DomainKind::cache;
  std::vector<int> domain_of;  // by rank; numbered from 0 in the order of the host's processors
};

// Those of a host that may be used, ascending.
std::vector<int> ProcessorsOf(const System& system, int host);

// Each of `nranks` ranks on one processor of the host, in turn, and again from the first one when all have a rank: as
// tutti-bench pins its ranks.
std::vector<std::vector<int>> OneProcessorEach(const System& system, int host, int nranks);

// How the ranks of a host are spread over its domains. `processors`: by rank, those that it may run on, ascending.
// Takes the innermost kind of domain of which every rank has one to itself, that is, may run nowhere else, and of which
// the ranks use several, with two ranks in each on average: fewer would have nothing to do within a domain. nullopt:
// there is no such kind, so the host is one domain to them.
std::optional<Domains> DomainsOf(const System& system, int host, std::span<const std::vector<int>> processors);

}  // namespace tutti::topology
