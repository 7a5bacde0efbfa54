// What this machine can do at best, measured with nothing of any library in the way: how long a cache line or a core
// takes to change hands, and how fast bytes stream by working set and number of cores. bound.h turns this into a bound
// for each cell of a benchmark.
//
// Thread-safety: value types. MeasureLimits starts and joins threads of its own.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "bench/worker/channel.h"

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

  // Straight lines between the points on logarithmic axes; beyond the ends the nearest point.
  double At(double working_set) const;
  const std::vector<Point>& points() const { return points_; }

 private:
  std::vector<Point> points_;
};

// At each working set the better of the two. REQUIRES: the same working sets.
BandwidthCurve Better(const BandwidthCurve& a, const BandwidthCurve& b);

// Streaming with this many cores at once, all together.
struct CoreBandwidth {
  int cores = 1;
  BandwidthCurve copy, copy_nontemporal;  // d = a
  BandwidthCurve add, add_nontemporal;    // d = a + b
};

struct Limits {
  int cores = 1;
  double line_round_trip_us = 0;   // a cache line, between two cores and back; 0 with a single core
  double yield_round_trip_us = 0;  // one core, between two threads and back by sched_yield
  // A core copies what another has just written, while that one does the same with its writes. Over the bytes copied,
  // counted once.
  BandwidthCurve crossing;
  std::vector<CoreBandwidth> bandwidth;  // 1, 2, 4, ... cores

  // Measured with the largest number of cores that is not above `cores`. REQUIRES: cores >= 1.
  const CoreBandwidth& With(int cores) const;
};

// About ten seconds. `report` hears what is being measured.
Limits MeasureLimits(const std::function<void(const std::string&)>& report);

// Measures anew what depends on where the cores are at the moment - round trips and crossing - in a fraction of a
// second. The cores of a virtual machine may be moved at any time, and cells measured minutes apart differ by it.
void RefreshCoreDistance(Limits& limits);

Json ToJson(const Limits& limits);
Limits LimitsFromJson(const Json& json);

}  // namespace tutti::bench
