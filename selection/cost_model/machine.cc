#include "selection/cost_model/machine.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tutti::cost_model {

double At(const Rate& rate, std::size_t footprint) {
  const auto found =
      std::find_if(rate.begin(), rate.end(), [footprint](const RateStep& step) { return footprint <= step.footprint; });
  return found != rate.end() ? found->bandwidth : rate.back().bandwidth;
}

Machine::Machine(std::vector<NodeType> types, std::vector<int> type_of_node, schedule::RankLayout rank_layout,
                 Costs costs)
    : types_(std::move(types)),
      type_of_node_(std::move(type_of_node)),
      place_(rank_layout.node_of.size()),
      rank_layout_(std::move(rank_layout)),
      costs_(std::move(costs)) {
  int next = 0;
  for (int node = 0; node < rank_layout_.nodes(); ++node) {
    first_resource_.push_back(next);
    next += static_cast<int>(types_.at(type_of_node_.at(node)).resources.size());
    const auto& ranks = rank_layout_.ranks_on[node];
    for (std::size_t i = 0; i < ranks.size(); ++i) place_[ranks[i]] = static_cast<int>(i);
    ranks_of_fullest_node_ = std::max(ranks_of_fullest_node_, ranks.size());
  }
  for (const auto& type : types_) has_teams_ = has_teams_ && !type.sums.empty();
  for (const auto& type : types_) {
    if (rank_layout_.nodes() == 1) break;
    for (const auto& routes : type.outward) {
      for (const auto& route : routes) one_host_ = one_host_ && !route.network;
    }
  }
  first_resource_.push_back(next);
  if (costs_.cores == 0) return;
  ranks_per_core_ = std::max(1.0, static_cast<double>(ranks_of_fullest_node_) / costs_.cores);
}

MoveRates Machine::RatesOf(const WorkingSet& set, double slot_bytes, bool streamed) const {
  const auto at = [this](double bytes) { return At(costs_.executor_bandwidth, static_cast<std::size_t>(bytes)); };
  const double all = set.buffers + set.slots;
  // A ring's slots are used in turn. While as many bytes as all slots hold pass through them, as many are read from
  // buffers and as many are written to buffers; a slot that is used again then must have stayed in the caches beside
  // those.
  constexpr double kPassing = 3;
  double slot = at(std::min(all, kPassing * set.slots));
  // Slots that go through memory move at half the rate of buffers: pieces in many pages, which two cores fetch and write
  // back. Estimated from one all-to-all, of 1 MiB on 8 ranks of two Zen 2 cores.
  constexpr double kThroughMemory = 2;
  const auto& rates_by_size = costs_.executor_bandwidth;
  if (rates_by_size.size() > 1 && slot == rates_by_size.back().bandwidth) slot /= kThroughMemory;
  MoveRates rates{at(all), slot, slot};
  if (streamed) rates.memory = std::max(rates.memory, costs_.streamed_bandwidth);
  if (!costs_.crossing_bandwidth.empty()) {
    const auto beside = static_cast<std::size_t>(slot_bytes * ranks_per_core_);
    rates.slot_read = std::min(slot, At(costs_.crossing_bandwidth, beside));
  }
  return rates;
}

int Machine::NodeOfResource(int index) const {
  return static_cast<int>(std::upper_bound(first_resource_.begin(), first_resource_.end(), index) -
                          first_resource_.begin()) -
         1;
}

const Resource& Machine::resource(int index) const {
  const int node = NodeOfResource(index);
  return types_[type_of_node_[node]].resources[index - first_resource_[node]];
}

Route Machine::Numbered(Route route, int node) const {
  for (int& resource : route.resources) resource += first_resource_[node];
  return route;
}

Route Machine::SumRouteOf(int reader) const {
  const int node = rank_layout_.node_of[reader];
  return Numbered(types_[type_of_node_[node]].sums[place_[reader]], node);
}

Route Machine::MulticastRouteOf(int writer) const {
  const int node = rank_layout_.node_of[writer];
  return Numbered(types_[type_of_node_[node]].multicasts[place_[writer]], node);
}

namespace {

// Channels take NICs in turn. A ring crosses from node to node at another rank in each channel (schedule::TurnedRings), so a
// rank's turn comes with every so many channels as its node has ranks. The shift lets it take all its NICs.
const Route& ByNic(const std::vector<Route>& nics, int channel, int ranks) {
  const int shift = channel / std::lcm(ranks, static_cast<int>(nics.size()));
  return nics[static_cast<std::size_t>(channel + shift) % nics.size()];
}

}  // namespace

Route Machine::RouteOf(int from, int to, int channel) const {
  const int from_node = rank_layout_.node_of[from];
  const int to_node = rank_layout_.node_of[to];
  const NodeType& here = types_[type_of_node_[from_node]];
  if (from_node == to_node) return Numbered(here.local[place_[from]][place_[to]], from_node);
  const NodeType& there = types_[type_of_node_[to_node]];
  Route route = Numbered(ByNic(here.outward[place_[from]], channel, here.nranks()), from_node);
  const Route in = Numbered(ByNic(there.inward[place_[to]], channel, there.nranks()), to_node);
  route.resources.insert(route.resources.end(), in.resources.begin(), in.resources.end());
  for (std::size_t protocol = 0; protocol < route.latency.size(); ++protocol)
    route.latency[protocol] += in.latency[protocol];
  route.network = route.network || in.network;
  return route;
}

}  // namespace tutti::cost_model
