#include "topology/search/ring_packing.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "topology/search/cheapest_cycle.h"

namespace tutti::search {
namespace {

// More rings than any machine has links for; bounds the search where a link is reported as absurdly wide.
constexpr int kMostRings = 64;
// The most ends for which vital links are sought, which takes the cube of their number for each link. Machines of more
// GPUs have switches, and the capacity of a GPU's own links is a sufficient bound.
constexpr int kMostForVital = 32;
// A ring that crosses one link too often is sought again, at a higher price of that link.
constexpr int kRetries = 4;
constexpr double kRetryPrice = 8;

Cycle Reverse(const Cycle& cycle) {
  // The way of hop k, from order[k], is that of the opposite hop, to order[k].
  return {{cycle.order.rbegin(), cycle.order.rend()}, [&] {
            std::vector<int> way(cycle.way.rbegin(), cycle.way.rend());
            std::rotate(way.begin(), way.begin() + 1, way.end());
            return way;
          }()};
}

// The pairs of ends with hops that cross none of the closed links.
class Connections {
 public:
  Connections(const HopGraph& graph, const std::vector<int>& closed) : size_(graph.size()), joined_(size_ * size_) {
    const auto crosses = [&](const Hop& hop) {
      return std::any_of(closed.begin(), closed.end(), [&](int link) {
        return std::find(hop.links.begin(), hop.links.end(), link) != hop.links.end();
      });
    };
    for (int a = 0; a < size_; ++a) {
      for (int b = 0; b < size_; ++b) {
        const std::vector<Hop>& hops = graph.hops(a, b);
        joined_[a * size_ + b] = !std::all_of(hops.begin(), hops.end(), crosses);
      }
    }
  }

  // A ring needs hops from every end to every other.
  bool AllReachAll() const {
    return Reached(0, kNone, [&](int a, int b) { return Joined(a, b); }) == size_ &&
           Reached(0, kNone, [&](int a, int b) { return Joined(b, a); }) == size_;
  }

  // A ring without one end is a path, so no end may be the only joint between the others.
  bool HangsTogetherWithout(int end) const {
    return Reached(end == 0 ? 1 : 0, end, [&](int a, int b) { return Joined(a, b) || Joined(b, a); }) == size_ - 1;
  }

 private:
  static constexpr int kNone = -1;

  bool Joined(int a, int b) const { return joined_[a * size_ + b] != 0; }

  template <typename Way>
  int Reached(int start, int shut, Way way) const {
    std::vector<bool> seen(size_, false);
    std::vector<int> open = {start};
    seen[start] = true;
    for (std::size_t i = 0; i < open.size(); ++i) {
      for (int next = 0; next < size_; ++next) {
        if (seen[next] || next == shut || !way(open[i], next)) continue;
        seen[next] = true;
        open.push_back(next);
      }
    }
    return static_cast<int>(open.size());
  }

  int size_;
  std::vector<char> joined_;
};

// Whether a ring may exist that crosses none of these links. False is certain, true is not.
bool MayAvoid(const HopGraph& graph, const std::vector<int>& links) {
  const Connections connections(graph, links);
  if (!connections.AllReachAll()) return false;
  for (int end = 0; end < graph.size(); ++end) {
    if (!connections.HangsTogetherWithout(end)) return false;
  }
  return true;
}

// The number of rings that can leave (or enter) an end. Ways out that start with the same link share it; the freest of
// them counts.
int Passages(const HopGraph& graph, const FreeLinks& free, double bandwidth, int end, bool leaving) {
  std::map<int, int> by_link;
  for (int other = 0; other < graph.size(); ++other) {
    for (const Hop& hop : leaving ? graph.hops(end, other) : graph.hops(other, end)) {
      int fit = kMostRings;
      for (const int link : hop.links) fit = std::min(fit, free.Fit(link, bandwidth));
      int& most = by_link[leaving ? hop.links.front() : hop.links.back()];
      most = std::max(most, fit);
    }
  }
  int sum = 0;
  for (const auto& [link, most] : by_link) sum += most;
  return sum;
}

// Takes rings one by one and keeps account of the links.
class Packer {
 public:
  Packer(const topology::System& system, const HopGraph& graph, const Packing& packing)
      : graph_(graph), packing_(packing), free_(system), dearer_(system.links.size(), 1), first_links_(graph.size()) {
    for (int a = 0; a < graph.size(); ++a) {
      for (int b = 0; b < graph.size(); ++b) {
        for (const Hop& hop : graph.hops(a, b)) first_links_[a].insert(hop.links.front());
      }
    }
  }

  std::vector<Cycle> Greedily(long& effort) {
    while (Missing() > 0 && TakeCheapest(effort)) {
      const Cycle reverse = Reverse(taken_.back());
      if (Missing() > 0) Take(reverse);
    }
    return std::move(taken_);
  }

  std::vector<Cycle> Exhaustively(long& effort) {
    if (!Complete(effort)) return {};
    return std::move(taken_);
  }

 private:
  int Missing() const { return packing_.at_most - static_cast<int>(taken_.size()); }

  bool Take(const Cycle& cycle) {
    if (!free_.Take(LinksOf(graph_, cycle), packing_.bandwidth)) return false;
    taken_.push_back(cycle);
    return true;
  }

  void GiveBack() {
    free_.GiveBack(LinksOf(graph_, taken_.back()), packing_.bandwidth);
    taken_.pop_back();
  }

  // By link; kNoWay for full links.
  std::vector<double> Prices() const {
    std::vector<double> prices;
    for (std::size_t link = 0; link < dearer_.size(); ++link) {
      const int index = static_cast<int>(link);
      const bool fits = free_.Fits(index, packing_.bandwidth);
      prices.push_back(fits ? free_.Price(index) * dearer_[link] : kNoWay);
    }
    return prices;
  }

  // NICs to try in turn: each alone, the least used first, or (-1) all at once.
  std::vector<int> NicsToTry() const {
    if (graph_.outside() < 0 || !packing_.same_nic) return {-1};
    std::vector<std::pair<double, int>> by_price;
    std::set<int> seen;
    for (int end = 0; end < graph_.size(); ++end) {
      for (const Hop& hop : graph_.hops(end, graph_.outside())) {
        if (seen.insert(hop.nic).second) by_price.emplace_back(free_.Price(hop.links.back()), hop.nic);
      }
    }
    std::sort(by_price.begin(), by_price.end());
    std::vector<int> nics;
    for (const auto& [price, nic] : by_price) nics.push_back(nic);
    return nics;
  }

  bool TakeCheapest(long& effort) {
    for (const int nic : NicsToTry()) {
      std::fill(dearer_.begin(), dearer_.end(), 1);
      for (int attempt = 0; attempt <= kRetries; ++attempt) {
        effort -= CheapestCycleEffort(graph_.size());
        if (effort < 0) return false;
        const Cycle cycle = Cheapest(nic);
        if (cycle.order.empty()) break;
        if (Take(cycle)) return true;
        RaisePrices(LinksOf(graph_, cycle));
      }
    }
    return false;
  }

  void RaisePrices(const std::vector<int>& links) {
    for (const int link : std::set<int>(links.begin(), links.end())) {
      const auto crossings = std::count(links.begin(), links.end(), link);
      if (crossings > free_.Fit(link, packing_.bandwidth)) dearer_[link] *= kRetryPrice;
    }
  }

  Cycle Cheapest(int nic) const {
    const int n = graph_.size();
    const std::vector<double> prices = Prices();
    std::vector<double> cost(n * n, kNoWay);
    std::vector<int> way(n * n, 0);
    for (int a = 0; a < n; ++a) {
      for (int b = 0; b < n; ++b) {
        const std::vector<Hop>& hops = graph_.hops(a, b);
        for (std::size_t k = 0; k < hops.size(); ++k) {
          if (nic >= 0 && hops[k].nic >= 0 && hops[k].nic != nic) continue;
          double price = 0;
          for (const int link : hops[k].links) price += prices[link];
          if (price >= cost[a * n + b]) continue;
          cost[a * n + b] = price;
          way[a * n + b] = static_cast<int>(k);
        }
      }
    }
    Cycle cycle = {CheapestCycle(cost, n), {}};
    for (std::size_t k = 0; k < cycle.order.size(); ++k) {
      cycle.way.push_back(way[cycle.order[k] * n + cycle.order[(k + 1) % n]]);
    }
    return cycle;
  }

  // Whether all ends have enough links left for the missing rings to leave by. `left`: the ends that the current ring
  // has left already.
  bool Promising(const std::vector<bool>& left) const {
    for (int end = 0; end < graph_.size(); ++end) {
      int fit = 0;
      for (const int link : first_links_[end]) fit += free_.Fit(link, packing_.bandwidth);
      if (fit < Missing() - (left[end] ? 1 : 0)) return false;
    }
    return true;
  }

  bool Complete(long& effort) {
    if (Missing() == 0) return true;
    Cycle open = {{graph_.outside() >= 0 ? graph_.outside() : 0}, {}};
    std::vector<bool> visited(graph_.size(), false);
    visited[open.order[0]] = true;
    return Extend(open, visited, effort);
  }

  // Depth first: adds one hop, and takes its links before the next one is chosen.
  bool Extend(Cycle& open, std::vector<bool>& visited, long& effort) {
    const bool closing = static_cast<int>(open.order.size()) == graph_.size();
    const int from = open.order.back();
    for (int to = 0; to < graph_.size(); ++to) {
      if (closing ? to != open.order.front() : visited[to]) continue;
      const std::vector<Hop>& hops = graph_.hops(from, to);
      for (std::size_t way = 0; way < hops.size(); ++way) {
        if (--effort < 0) return false;
        if (closing && packing_.same_nic && hops[way].nic != FirstNic(open)) continue;
        if (!free_.Take(hops[way].links, packing_.bandwidth)) continue;
        open.way.push_back(static_cast<int>(way));
        if (Promising(visited) && (closing ? Closed(open, effort) : ExtendFrom(to, open, visited, effort))) return true;
        open.way.pop_back();
        free_.GiveBack(hops[way].links, packing_.bandwidth);
      }
    }
    return false;
  }

  bool ExtendFrom(int end, Cycle& open, std::vector<bool>& visited, long& effort) {
    visited[end] = true;
    open.order.push_back(end);
    if (Extend(open, visited, effort)) return true;
    open.order.pop_back();
    visited[end] = false;
    return false;
  }

  int FirstNic(const Cycle& cycle) const { return graph_.hops(cycle.order[0], cycle.order[1])[cycle.way[0]].nic; }

  // A ring's links are taken: goes on with the next one, and with the ring's reverse if that is wanted and fits.
  bool Closed(const Cycle& cycle, long& effort) {
    taken_.push_back(cycle);
    const bool both = Missing() > 0 && Take(Reverse(cycle));
    if (Complete(effort)) return true;
    if (both) GiveBack();
    taken_.pop_back();
    return false;
  }

  const HopGraph& graph_;
  Packing packing_;
  FreeLinks free_;
  std::vector<double> dearer_;              // factors on the links' prices, for the current ring
  std::vector<std::set<int>> first_links_;  // of all hops, by the end they leave
  std::vector<Cycle> taken_;
};

}  // namespace

std::vector<int> LinksOf(const HopGraph& graph, const Cycle& cycle) {
  std::vector<int> links;
  for (std::size_t k = 0; k < cycle.order.size(); ++k) {
    const Hop& hop = graph.hops(cycle.order[k], cycle.order[(k + 1) % cycle.order.size()])[cycle.way[k]];
    links.insert(links.end(), hop.links.begin(), hop.links.end());
  }
  return links;
}

std::vector<std::vector<int>> VitalLinks(const topology::System& system, const HopGraph& graph) {
  if (graph.size() > kMostForVital) return {};
  const std::vector<int> opposite = OppositeLinks(system);
  std::set<int> crossed;
  for (int a = 0; a < graph.size(); ++a) {
    for (int b = 0; b < graph.size(); ++b) {
      for (const Hop& hop : graph.hops(a, b)) crossed.insert(hop.links.begin(), hop.links.end());
    }
  }
  std::vector<std::vector<int>> vital;
  for (const int link : crossed) {
    if (!MayAvoid(graph, {link})) vital.push_back({link});
    if (link < opposite[link] && !MayAvoid(graph, {link, opposite[link]})) vital.push_back({link, opposite[link]});
  }
  return vital;
}

int MostRings(const topology::System& system, const HopGraph& graph, const std::vector<std::vector<int>>& vital,
              double bandwidth) {
  const FreeLinks free(system);
  int most = kMostRings;
  for (int end = 0; end < graph.size(); ++end) {
    most = std::min({most, Passages(graph, free, bandwidth, end, true), Passages(graph, free, bandwidth, end, false)});
  }
  for (const std::vector<int>& links : vital) {
    int sum = 0;
    for (const int link : links) sum += free.Fit(link, bandwidth);
    most = std::min(most, sum);
  }
  return most;
}

std::vector<Cycle> PackGreedily(const topology::System& system, const HopGraph& graph, const Packing& packing,
                                long& effort) {
  return Packer(system, graph, packing).Greedily(effort);
}

std::vector<Cycle> PackExhaustively(const topology::System& system, const HopGraph& graph, const Packing& packing,
                                    long& effort) {
  return Packer(system, graph, packing).Exhaustively(effort);
}

}  // namespace tutti::search
