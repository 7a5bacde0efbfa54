// Bytes in transit over shared resources. Each flow crosses all its resources at once, at one rate; resources are
// shared max-min fairly: no flow can be faster without slowing one that is no faster than it.
//
// Bertsekas and Gallager, "Data Networks" (1992), 6.5.2: raise all flows alike until a resource is full, then the rest.
// A start or an end has effects only through resources that cannot carry all that their flows could use. So Settle,
// once an instant, re-shares only the flows joined by such resources.
//
// Thread-safety: none; one owner.
// Invariants: rates are right after Settle; between a start or an end and Settle they are the previous ones.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "selection/simulator/event_queue.h"

namespace tutti::simulator {

class Flows {
 public:
  // Bandwidths in GB/s, by resource.
  explicit Flows(std::span<const double> bandwidths);

  // A flow that may be started; flows are numbered from 0. A resource named twice is crossed twice.
  void Add(std::span<const int> resources);

  // REQUIRES: not under way; peak > 0. At most `peak` GB/s (infinity: whatever the resources carry).
  void Start(int flow, double bytes, double peak, Time now);
  // REQUIRES: under way, and EndOf is now.
  void End(int flow);

  // Re-shares the resources after this instant's starts and ends. changed() lists the flows whose end has changed,
  // until the next Settle.
  void Settle(Time now);
  bool settled() const { return started_.empty() && touched_.empty(); }
  std::span<const int> changed() const { return changed_; }
  Time EndOf(int flow) const { return flows_[flow].end; }
  // Changes with every change of the flow's end.
  std::uint32_t VersionOf(int flow) const { return flows_[flow].version; }
  double RateOf(int flow) const { return flows_[flow].rate; }  // bytes a picosecond

  // Bytes over a resource, of all flows that have ended.
  double BytesOver(int resource) const { return resources_[resource].bytes; }

 private:
  struct Flow {
    std::uint32_t first;  // of its uses
    std::uint32_t uses;
    std::uint32_t version = 0;
    bool collected = false;
    bool shared = false;  // out of this round: its rate is found
    double bytes = 0;
    double left = 0;  // bytes, at `since`
    double peak = 0;  // rate when alone
    double rate = 0;
    Time since = 0;
    Time end = 0;
  };
  // A flow's crossing of a resource, and its place in the resource's list while the flow is under way.
  struct Use {
    int flow;
    int resource;
    std::uint32_t place;
  };
  struct Resource {
    double bandwidth;
    double demand = 0;  // of its flows' peaks
    double bytes = 0;
    bool tight = false;  // cannot carry its demand
    bool touched = false;
    bool reached = false;
    double left = 0;  // to share out in this round
    int sharers = 0;
    std::vector<std::uint32_t> uses = {};  // under way
  };

  std::span<Use> UsesOf(const Flow& flow) { return std::span(uses_).subspan(flow.first, flow.uses); }
  void Touch(int resource);
  void Collect(int flow);
  void CollectJoined();
  void Share();
  void Fix(Flow& flow, double rate);

  std::vector<Flow> flows_;
  std::vector<Use> uses_;
  std::vector<Resource> resources_;
  std::vector<int> started_, touched_, changed_;
  // State of one round of sharing.
  std::vector<int> collected_, tight_;
  std::vector<double> new_rates_;
  std::vector<std::pair<double, int>> by_share_;
};

}  // namespace tutti::simulator
