// The traffic of a schedule on the machine's links, as it is priced: the busiest link bounds the price.
//
// Thread-safety: value type; refers to the machine and the graph of which it was made.
#pragma once

#include <map>
#include <vector>

#include "selection/cost_model/step_graph.h"

namespace tutti::cost_model {

class LinkTraffic {
 public:
  // REQUIRES: the graph is of this machine and these representatives; machine and graph outlive this.
  LinkTraffic(const Machine& machine, const RepresentativeRanks& representatives, const StepGraph& graph);

  // Bytes over a resource, flags included, for each byte of every block on each channel of a unit: all, and those that
  // go over the network.
  struct Load {
    double all = 0;
    double network = 0;
  };
  // By resource, where the call repeats the unit `channels` times. Where members stand for the ranks of other nodes, their
  // node's load is every node's, and only its resources are here.
  std::map<int, Load> Over(ring::Protocol protocol, int channels) const;
  // The number of that resource there.
  int KeyOf(int resource) const { return folded_ ? machine_.LocalNumber(resource) : resource; }
  // The same, in bytes, by resource of all nodes.
  std::vector<double> BytesOver(ring::Protocol protocol, int channels, double block_bytes) const;

  // How many slots cross a node's link to the network together, where that slows them most: those that each rank writes at
  // once, in each channel.
  double NetworkSharing(int channels) const;

 private:
  int InChannel(int rank, int channel) const;
  template <typename What>
  void EachRoute(int from, int to, int channel, int channels, const What& what) const;

  const Machine& machine_;
  const StepGraph& graph_;
  int unit_channels_;
  bool folded_;                     // members stand for other ranks
  std::vector<int> place_in_ring_;  // by rank: in the first ring; empty: channels go the same way
  std::vector<int> begin_;          // by ring: the root's place
  // These are the members', and those of the other ranks of their node that they stand for.
  std::vector<StepGraph::Send> sends_;
  std::vector<StepGraph::InSwitch> in_switch_;
};

}  // namespace tutti::cost_model
