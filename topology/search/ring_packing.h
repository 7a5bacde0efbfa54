// How many rings of one bandwidth fit into a hop graph's links: the search's inner part (see ring_search.h).
//
// Thread-safety: value types and pure functions. Deterministic.
#pragma once

#include <vector>

#include "topology/search/hop_graph.h"

namespace tutti::search {

// A ring through all ends; way[k] is the number of the hop that it takes from order[k] to the next end.
struct Cycle {
  std::vector<int> order = {};
  std::vector<int> way = {};
};

std::vector<int> LinksOf(const HopGraph& graph, const Cycle& cycle);

// The rules of a packing.
struct Packing {
  double bandwidth = 0;   // GB/s of each ring
  int at_most = 0;        // rings
  bool same_nic = false;  // a ring enters and leaves by the same NIC
};

// Sets of links, such that every ring crosses at least one link of each set. Not necessarily all such sets.
std::vector<std::vector<int>> VitalLinks(const topology::System& system, const HopGraph& graph);

// An upper bound on rings of this bandwidth: every ring enters and leaves every end once, and crosses vital links.
int MostRings(const topology::System& system, const HopGraph& graph, const std::vector<std::vector<int>>& vital,
              double bandwidth);

// Takes the cheapest ring repeatedly. `effort` is the number of hops that may still be looked at; the packing stops
// when it is used up.
std::vector<Cycle> PackGreedily(const topology::System& system, const HopGraph& graph, const Packing& packing,
                                long& effort);

// Exactly `packing.at_most` rings, by trying all possibilities; empty if there are none or `effort`, the number of hops
// that may still be looked at, is used up first.
std::vector<Cycle> PackExhaustively(const topology::System& system, const HopGraph& graph, const Packing& packing,
                                    long& effort);

}  // namespace tutti::search
