#include "topology/search/hop_graph.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <utility>

#include "topology/graph/paths.h"
#include "topology/graph/rails.h"

namespace tutti::search {
namespace {

// Bandwidths are sums of a few parts; those that differ by less than this share are the same.
constexpr double kSlack = 1e-6;
// A nearly full link is e^4, about 55 times, as dear as a free one: a detour of a few links is then cheaper, one around
// the whole machine is not.
constexpr double kPriceExponent = 4;

bool Usable(const topology::Path& path) { return path.path_class < topology::PathClass::NET && !path.links.empty(); }

std::vector<int> Backwards(const std::vector<int>& links, const std::vector<int>& opposite) {
  std::vector<int> result;
  for (auto link = links.rbegin(); link != links.rend(); ++link) {
    if (opposite[*link] < 0) return {};
    result.push_back(opposite[*link]);
  }
  return result;
}

// The link that joins a NIC to the network, outwards; -1 if there is none.
int PortOf(const topology::System& system, int nic) {
  for (std::size_t i = 0; i < system.links.size(); ++i) {
    const topology::Link& link = system.links[i];
    if (link.from == nic && link.kind == topology::LinkKind::network) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

std::vector<int> OppositeLinks(const topology::System& system) {
  std::map<std::pair<int, int>, std::vector<int>> between;
  for (std::size_t i = 0; i < system.links.size(); ++i) {
    between[{system.links[i].from, system.links[i].to}].push_back(static_cast<int>(i));
  }
  std::vector<int> opposite(system.links.size(), -1);
  for (const auto& [ends, there] : between) {
    const auto back = between.find({ends.second, ends.first});
    if (back == between.end()) continue;
    for (std::size_t k = 0; k < std::min(there.size(), back->second.size()); ++k) opposite[there[k]] = back->second[k];
  }
  return opposite;
}

HopGraph::HopGraph(const topology::System& system, int host, NicReach reach) {
  ends_ = topology::RingEnds(system, host);
  if (reach != NicReach::none) {
    outside_ = size();
    ends_.push_back(-1);
  }
  hops_.resize(ends_.size() * ends_.size());
  AddHops(system);
  if (reach != NicReach::none) AddOutside(system, host, reach);
}

void HopGraph::AddHops(const topology::System& system) {
  const std::vector<int> opposite = OppositeLinks(system);
  for (int a = 0; a < size(); ++a) {
    if (a == outside_) continue;
    const std::vector<topology::Path> paths = topology::PathsFrom(system, ends_[a]);
    for (int b = 0; b < size(); ++b) {
      if (b == a || b == outside_ || !hops_[a * size() + b].empty() || !Usable(paths[ends_[b]])) continue;
      const std::vector<int>& links = paths[ends_[b]].links;
      hops_[a * size() + b].push_back({links});
      const std::vector<int> back = Backwards(links, opposite);
      if (b > a && !back.empty()) hops_[b * size() + a].push_back({back});
    }
  }
}

void HopGraph::AddOutside(const topology::System& system, int host, NicReach reach) {
  const std::vector<int> opposite = OppositeLinks(system);
  const std::vector<int> ends(ends_.begin(), ends_.begin() + outside_);
  for (const int nic : system.All(topology::DeviceKind::nic, host)) {
    const int port = PortOf(system, nic);
    if (port < 0 || opposite[port] < 0) continue;
    const std::vector<topology::Path> paths = topology::PathsFrom(system, nic);
    const std::vector<int> nearest = topology::Nearest(paths, ends);
    for (int end = 0; end < outside_; ++end) {
      const topology::Path& path = paths[ends_[end]];
      if (!Usable(path)) continue;
      if (reach == NicReach::nearest && std::find(nearest.begin(), nearest.end(), ends_[end]) == nearest.end())
        continue;
      std::vector<int> out = Backwards(path.links, opposite);
      if (out.empty()) continue;
      out.push_back(port);
      std::vector<int> in = path.links;
      in.insert(in.begin(), opposite[port]);
      hops_[end * size() + outside_].push_back({out, nic});
      hops_[outside_ * size() + end].push_back({in, nic});
    }
  }
}

FreeLinks::FreeLinks(const topology::System& system) {
  for (const topology::Link& link : system.links) capacity_.push_back(link.bandwidth);
  free_ = capacity_;
}

bool FreeLinks::Fits(int link, double bandwidth) const { return free_[link] >= bandwidth - kSlack * capacity_[link]; }

int FreeLinks::Fit(int link, double bandwidth) const {
  return std::max(0, static_cast<int>((free_[link] + kSlack * capacity_[link]) / bandwidth));
}

bool FreeLinks::Take(const std::vector<int>& links, double bandwidth) {
  for (std::size_t i = 0; i < links.size(); ++i) {
    if (!Fits(links[i], bandwidth)) {
      while (i-- > 0) free_[links[i]] += bandwidth;
      return false;
    }
    free_[links[i]] -= bandwidth;
  }
  return true;
}

void FreeLinks::GiveBack(const std::vector<int>& links, double bandwidth) {
  for (const int link : links) free_[link] += bandwidth;
}

double FreeLinks::Price(int link) const {
  const double used = 1 - free_[link] / capacity_[link];
  return std::exp(kPriceExponent * used) / capacity_[link];
}

double FreeLinks::Price(const std::vector<int>& links) const {
  double sum = 0;
  for (const int link : links) sum += Price(link);
  return sum;
}

std::vector<double> CandidateBandwidths(const topology::System& system, const HopGraph& graph, int parts) {
  std::vector<double> whole;
  for (int a = 0; a < graph.size(); ++a) {
    for (int b = 0; b < graph.size(); ++b) {
      for (const Hop& hop : graph.hops(a, b)) {
        for (const int link : hop.links) {
          if (system.links[link].bandwidth > 0) whole.push_back(system.links[link].bandwidth);
        }
      }
    }
  }
  const auto same = [](double a, double b) { return std::abs(a - b) <= kSlack * std::max(a, b); };
  std::sort(whole.begin(), whole.end());
  whole.erase(std::unique(whole.begin(), whole.end(), same), whole.end());
  std::vector<double> bandwidths;
  for (const double bandwidth : whole) {
    for (int k = 1; k <= parts; ++k) bandwidths.push_back(bandwidth / k);
  }
  std::sort(bandwidths.begin(), bandwidths.end(), std::greater<>());
  bandwidths.erase(std::unique(bandwidths.begin(), bandwidths.end(), same), bandwidths.end());
  return bandwidths;
}

}  // namespace tutti::search
