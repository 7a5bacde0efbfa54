#include "topology/search/ring_search.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "topology/graph/rails.h"
#include "topology/search/cheapest_cycle.h"
#include "topology/search/ring_packing.h"

namespace tutti::search {
namespace {

// A ring takes at least an eighth of some link: more and thinner channels cost an executor more than they carry.
constexpr int kRingParts = 8;
// A total must be this much better to count as better; smaller differences are rounding.
constexpr double kBetter = 1 + 1e-6;
// Hops that a search may look at, over all bandwidths: some 10 ms for the cheapest rings, 5 for trying all.
constexpr long kGreedyEffort = 500'000;
constexpr long kExhaustiveEffort = 20'000;
// At least this many rings may be looked for, however many ends there are.
constexpr long kLeastRings = 24;
// Among more ends, that effort would not suffice for one ring.
constexpr int kExhaustiveEnds = 24;

struct Candidate {
  double bandwidth;
  int most;
  double total() const { return bandwidth * most; }
};

// By the total that they promise; of equal totals, the one with the fewest rings first.
std::vector<Candidate> Candidates(const topology::System& system, const HopGraph& graph) {
  const std::vector<std::vector<int>> vital = VitalLinks(system, graph);
  std::vector<Candidate> candidates;
  for (const double bandwidth : CandidateBandwidths(system, graph, kRingParts)) {
    candidates.push_back({bandwidth, MostRings(system, graph, vital, bandwidth)});
  }
  // Stable, since they come by descending bandwidth; to whole MB/s, since equal totals differ by rounding.
  std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::lround(a.total() * 1000) > std::lround(b.total() * 1000);
  });
  return candidates;
}

Ring ToRing(const HopGraph& graph, Cycle cycle) {
  Ring ring;
  const auto outside = std::find(cycle.order.begin(), cycle.order.end(), graph.outside());
  if (outside != cycle.order.end()) {
    const auto first = outside - cycle.order.begin();
    std::rotate(cycle.order.begin(), cycle.order.begin() + first, cycle.order.end());
    std::rotate(cycle.way.begin(), cycle.way.begin() + first, cycle.way.end());
    ring.nic_in = graph.hops(cycle.order[0], cycle.order[1])[cycle.way.front()].nic;
    ring.nic_out = graph.hops(cycle.order.back(), cycle.order[0])[cycle.way.back()].nic;
  }
  ring.links = LinksOf(graph, cycle);
  for (const int end : cycle.order) {
    if (end != graph.outside()) ring.order.push_back(graph.device(end));
  }
  return ring;
}

// Whether `rings` rings of this bandwidth are better: a larger total, or the same by fewer rings.
bool IsBetter(double bandwidth, int rings, const Rings& than) {
  const double total = bandwidth * rings;
  if (total > than.total() * kBetter) return true;
  return total * kBetter > than.total() && rings < static_cast<int>(than.rings.size());
}

// Whether a ring can enter and leave by one NIC: some NIC has a first end and a last one.
bool SameNicPossible(const HopGraph& graph) {
  std::map<int, int> ends;
  for (int end = 0; end < graph.size(); ++end) {
    for (const Hop& hop : graph.hops(end, graph.outside())) ++ends[hop.nic];
  }
  return std::any_of(ends.begin(), ends.end(), [&](const auto& nic) { return nic.second > 1 || graph.size() == 2; });
}

// The best rings that carry more than `beaten` in all; none if there are none.
Rings Search(const topology::System& system, const HopGraph& graph, const std::vector<Candidate>& candidates,
             bool same_nic, double beaten) {
  Rings best;
  const auto wanted = [&](double bandwidth, int rings) {
    return bandwidth * rings > beaten * kBetter && IsBetter(bandwidth, rings, best);
  };
  long greedy_effort = std::max(kGreedyEffort, kLeastRings * CheapestCycleEffort(graph.size()));
  long exhaustive_effort = graph.size() <= kExhaustiveEnds ? kExhaustiveEffort : 0;
  for (const Candidate& candidate : candidates) {
    if (!wanted(candidate.bandwidth, candidate.most)) continue;
    Packing packing = {candidate.bandwidth, candidate.most, same_nic};
    std::vector<Cycle> cycles = PackGreedily(system, graph, packing, greedy_effort);
    const auto found = static_cast<int>(cycles.size());
    for (; packing.at_most > found && exhaustive_effort > 0; --packing.at_most) {
      if (!wanted(packing.bandwidth, packing.at_most)) break;
      std::vector<Cycle> more = PackExhaustively(system, graph, packing, exhaustive_effort);
      if (more.empty()) continue;
      cycles = std::move(more);
      break;
    }
    if (!wanted(candidate.bandwidth, static_cast<int>(cycles.size()))) continue;
    best = {{}, candidate.bandwidth};
    for (const Cycle& cycle : cycles) best.rings.push_back(ToRing(graph, cycle));
    std::stable_sort(best.rings.begin(), best.rings.end(),
                     [](const Ring& a, const Ring& b) { return a.nic_in < b.nic_in; });
  }
  return best;
}

}  // namespace

Rings SearchRings(const topology::System& system, int host) {
  const HopGraph graph(system, host, NicReach::none);
  if (graph.size() < 2) return {};
  return Search(system, graph, Candidates(system, graph), false, 0);
}

Rings SearchClusterRings(const topology::System& system, int host) {
  Rings best;
  // In the order of preference: a later choice must carry more to be taken.
  for (const NicReach reach : {NicReach::nearest, NicReach::any}) {
    const HopGraph graph(system, host, reach);
    if (graph.size() < 2) return {};
    const std::vector<Candidate> candidates = Candidates(system, graph);
    for (const bool same_nic : {true, false}) {
      if (same_nic && !SameNicPossible(graph)) continue;
      Rings found = Search(system, graph, candidates, same_nic, best.total());
      if (!found.rings.empty()) best = std::move(found);
    }
  }
  return best;
}

std::vector<std::vector<int>> RingsAcross(const topology::System& system, const Rings& on_host0) {
  const std::vector<int> model = topology::RingEnds(system, 0);
  std::vector<std::vector<int>> across(on_host0.rings.size());
  for (int host = 0; host < system.hosts(); ++host) {
    const std::vector<int> ends = topology::RingEnds(system, host);
    if (ends.size() != model.size()) {
      Throw(tuttiInvalidArgument, "rings over hosts need identical hosts, but host 0 has {} GPUs and host {} has {}",
            model.size(), host, ends.size());
    }
    for (std::size_t r = 0; r < across.size(); ++r) {
      const Ring& ring = on_host0.rings[r];
      std::vector<int> here;
      for (const int device : ring.order) {
        here.push_back(ends[std::find(model.begin(), model.end(), device) - model.begin()]);
      }
      if (host % 2 == 1 && ring.nic_in != ring.nic_out) std::reverse(here.begin(), here.end());
      across[r].insert(across[r].end(), here.begin(), here.end());
    }
  }
  return across;
}

}  // namespace tutti::search
