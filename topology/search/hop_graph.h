// The graph in which rings and trees are searched: the ends that a collective visits on one host - its GPUs, or its
// NUMA nodes where it has none -, for every ordered pair of them the links that a hop crosses, and how much of each
// link is still free. Over several hosts the rest of the cluster is one more end, reached and left through any NIC: a
// ring over hosts is then a ring like any other, and where it passes that end it names the NIC that it takes.
//
// Invariants: the hop from b to a crosses the links of the hop from a to b backwards, wherever links have two
// directions.
//
// Thread-safety: value types.
#pragma once

#include <vector>

#include "topology/graph/system.h"

namespace tutti::search {

// One way from an end to another.
struct Hop {
  std::vector<int> links = {};  // indices into System::links, in order
  int nic = -1;                 // the device by which the hop leaves or enters the host, if it does
};

enum class NicReach : std::uint8_t {
  none,     // one host alone
  nearest,  // a NIC serves only the ends that are nearest to it
  any,
};

class HopGraph {
 public:
  HopGraph(const topology::System& system, int host, NicReach reach);

  int size() const { return static_cast<int>(ends_.size()); }
  // The end that stands for the other hosts; -1 for one host alone.
  int outside() const { return outside_; }
  // The device of an end; -1 for the outside.
  int device(int end) const { return ends_[end]; }
  // All ways from one end to another: one, or one per NIC. Those of (a, b) and of (b, a) correspond.
  const std::vector<Hop>& hops(int from, int to) const { return hops_[from * size() + to]; }

 private:
  void AddHops(const topology::System& system);
  void AddOutside(const topology::System& system, int host, NicReach reach);

  std::vector<int> ends_;
  std::vector<std::vector<Hop>> hops_;
  int outside_ = -1;
};

// The unused bandwidth of every link.
class FreeLinks {
 public:
  explicit FreeLinks(const topology::System& system);

  // Takes GB/s from each of the links, once per mention. Returns false, and takes nothing, if that is more than there
  // is.
  bool Take(const std::vector<int>& links, double bandwidth);
  bool Fits(int link, double bandwidth) const;
  void GiveBack(const std::vector<int>& links, double bandwidth);
  // How many times `bandwidth` can still be taken.
  int Fit(int link, double bandwidth) const;
  // The price of a GB/s of this link. It rises exponentially with the share in use (the multiplicative weights of Garg
  // and Koenemann's packing algorithm), so that the cheapest way spares scarce links.
  double Price(int link) const;
  double Price(const std::vector<int>& links) const;

 private:
  std::vector<double> capacity_;
  std::vector<double> free_;
};

// The opposite direction of every link; -1 where there is none.
std::vector<int> OppositeLinks(const topology::System& system);

// Bandwidths worth a try for a ring or a tree: those of the links that hops cross, whole and divided into up to `parts`
// equal parts; descending.
std::vector<double> CandidateBandwidths(const topology::System& system, const HopGraph& graph, int parts);

}  // namespace tutti::search
