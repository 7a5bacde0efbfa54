#include "selection/cost_model/link_traffic.h"

#include <algorithm>

#include "algorithms/builders/records.h"
#include "algorithms/builders/steps.h"

namespace tutti::cost_model {

LinkTraffic::LinkTraffic(const Machine& machine, const RepresentativeRanks& representatives, const StepGraph& graph)
    : machine_(machine),
      graph_(graph),
      unit_channels_(static_cast<int>(representatives.members().front().channels.size())),
      folded_(!representatives.complete()) {
  const auto& rings = machine.rank_layout().rings;
  const schedule::Schedule& first = representatives.members().front();
  if (!rings.empty() && builders::RecordOf(first.algorithm).follows_rings) {
    place_in_ring_.resize(rings.front().size());
    for (std::size_t i = 0; i < rings.front().size(); ++i) place_in_ring_[rings.front()[i]] = static_cast<int>(i);
    for (const auto& ring : rings) {
      const auto root = std::find(ring.begin(), ring.end(), first.root);
      begin_.push_back(schedule::HasRoot(first.collective) ? static_cast<int>(root - ring.begin()) : 0);
    }
  }
  if (machine.resources() == 0) return;
  // Members that stand for others of their node share its links with them.
  const auto ranks = machine.rank_layout().ranks_on.front().size();
  const int copies = folded_ ? static_cast<int>(ranks / representatives.members().size()) : 1;
  for (int copy = 0; copy < copies; ++copy) {
    for (StepGraph::Send send : graph.sends) {
      send.member = representatives.InCopy(copy, send.member);
      send.peer = representatives.InCopy(copy, send.peer);
      sends_.push_back(send);
    }
    for (StepGraph::InSwitch crossing : graph.in_switch) {
      crossing.member = representatives.InCopy(copy, crossing.member);
      in_switch_.push_back(crossing);
    }
  }
}

// The rank at the place in `channel`'s ring that `rank` has in the first ring, counted from the root if there is one.
int LinkTraffic::InChannel(int rank, int channel) const {
  if (place_in_ring_.empty()) return rank;
  const auto& rings = machine_.rank_layout().rings;
  const auto number = static_cast<std::size_t>(channel) % rings.size();
  const int place = place_in_ring_[rank] - begin_.front() + begin_[number];
  return rings[number][builders::Around(place, machine_.nranks())];
}

// Calls what(sender, route) for each channel of the call that repeats the unit's `channel`.
template <typename What>
void LinkTraffic::EachRoute(int from, int to, int channel, int channels, const What& what) const {
  for (int c = channel; c < channels * unit_channels_; c += unit_channels_) {
    const int sender = InChannel(from, c);
    what(sender, machine_.RouteOf(sender, InChannel(to, c), c));
  }
}

std::map<int, LinkTraffic::Load> LinkTraffic::Over(ring::Protocol protocol, int channels) const {
  std::map<int, Load> loads;
  const Costs& costs = machine_.costs();
  for (const auto& send : sends_) {
    const auto w = static_cast<std::size_t>(costs.On(graph_.ways[send.way].network, protocol));
    const double share = graph_.slots_of_a_crossing * send.slots / costs.protocol_efficiency[w] / channels;
    EachRoute(send.member, send.peer, send.channel, channels, [&](int, const Route& route) {
      for (const int resource : route.resources) {
        auto& load = loads[KeyOf(resource)];
        load.all += share;
        if (route.network) load.network += share;
      }
    });
  }
  for (const auto& [rank, sum] : in_switch_) {
    const Route route = sum ? machine_.SumRouteOf(rank) : machine_.MulticastRouteOf(rank);
    for (const int resource : route.resources) loads[KeyOf(resource)].all += 1 / machine_.costs().in_switch_efficiency;
  }
  return loads;
}

std::vector<double> LinkTraffic::BytesOver(ring::Protocol protocol, int channels, double block_bytes) const {
  const auto loads = Over(protocol, channels);
  std::vector<double> bytes(static_cast<std::size_t>(machine_.resources()));
  for (int i = 0; i < machine_.resources(); ++i) {
    const auto found = loads.find(KeyOf(i));
    if (found != loads.end()) bytes[static_cast<std::size_t>(i)] = found->second.all * block_bytes / unit_channels_;
  }
  return bytes;
}

double LinkTraffic::NetworkSharing(int channels) const {
  std::map<int, int> slots;  // by link of the sender's own node
  for (const auto& burst : graph_.bursts) {
    for (const int peer : burst.peers) {
      EachRoute(burst.member, peer, burst.channel, channels, [&](int sender, const Route& route) {
        for (const int resource : route.resources) {
          if (machine_.NodeOfResource(resource) == machine_.rank_layout().node_of[sender]) ++slots[resource];
        }
      });
    }
  }
  double narrowest = 0;  // us for a byte
  double slowest = 0;    // likewise, of all slots
  for (const auto& [resource, count] : slots) {
    const double us_per_byte = UsPerByte(machine_.resource(resource).bandwidth);
    narrowest = std::max(narrowest, us_per_byte);
    slowest = std::max(slowest, us_per_byte * count);
  }
  return narrowest > 0 ? slowest / narrowest : 1;
}

}  // namespace tutti::cost_model
