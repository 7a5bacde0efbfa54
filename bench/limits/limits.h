// This machine's limits, measured without any library: how long a cache line or a core takes to change hands, and how
// fast bytes stream, by working set and number of cores. bound.h derives a bound for each cell of a benchmark.
//
// Thread-safety: value types. MeasureLimits starts and joins threads of its own.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "bench/worker/control_socket.h"

namespace tutti::bench {

// Gigabytes (10^9) per second, bytes read plus bytes written, over the working set in bytes PER CORE.
class BandwidthCurve {
 public:
  struct Point {
    double working_set = 0;
    double gbs = 0;
  };
  // REQUIRES: At() only if not empty; points ascending and positive.
  BandwidthCurve() = default;
  explicit BandwidthCurve(std::vector<Point> points) : points_(std::move(points)) {}

  // Interpolates linearly on logarithmic axes; beyond the ends, uses the nearest point.
  double At(double working_set) const;
  // REQUIRES: not empty.
  double Highest() const;
  const std::vector<Point>& points() const { return points_; }

 private:
  std::vector<Point> points_;
};

// The better of the two at each working set. REQUIRES: the same working sets.
BandwidthCurve Better(const BandwidthCurve& a, const BandwidthCurve& b);

// The total bandwidth of this many cores streaming at once.
struct CoreBandwidth {
  int cores = 1;
  BandwidthCurve copy, copy_nontemporal;  // d = a
  BandwidthCurve add, add_nontemporal;    // d = a + b
};

struct Limits {
  int cores = 1;
  double line_round_trip_us = 0;   // a cache line, between two cores and back; 0 with a single core
  double yield_round_trip_us = 0;  // one core, between two threads and back by sched_yield
  double private_cache_bytes = 0;  // of a core, its largest (L2), as the system reports it; 0: none
  // Each of two cores copies what the other has just written, both at once. By the number of bytes copied, counted
  // once.
  BandwidthCurve crossing;
  std::vector<CoreBandwidth> bandwidth;  // 1, 2, 4, ... cores

  // The measurement with the most cores not above `cores`. REQUIRES: cores >= 1.
  const CoreBandwidth& With(int cores) const;
};

// Takes about fifteen seconds. Calls `report` with what is being measured.
Limits MeasureLimits(const std::function<void(const std::string&)>& report);

// Repeats, in a fraction of a second, the measurements that depend on where the cores are now: round trips and
// crossing. A virtual machine's cores may move at any time, and so differ between cells measured minutes apart.
void RefreshCoreDistance(Limits& limits);

Json ToJson(const Limits& limits);
Limits LimitsFromJson(const Json& json);

}  // namespace tutti::bench
