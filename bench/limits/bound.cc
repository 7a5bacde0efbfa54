#include "bench/limits/bound.h"

#include <algorithm>
#include <cmath>

#include "base/numbers/datatype.h"

namespace tutti::bench {
namespace {

constexpr double kBytesPerUsOfOneGbs = 1e3;

struct Shares {
  double n;      // ranks
  double c;      // cores that have ranks, or hosts
  double local;  // ranks on the fullest one
  double block;  // bytes of count elements
};

Shares SharesOf(const Operation& operation, int ranks, int places) {
  return {static_cast<double>(ranks), static_cast<double>(places), static_cast<double>((ranks + places - 1) / places),
          static_cast<double>(operation.count * SizeOf(operation.type))};
}

double Crossing(const Pattern& pattern, const Shares& s) {
  const double others = s.n - s.local;  // ranks on cores other than the fullest
  const bool all_in = pattern.input.part == Part::all, all_out = pattern.output.part == Part::all;
  if (pattern.reduces) return all_in ? (s.c - 1) * s.local * s.block : 2 * (s.c - 1) / s.c * s.block;
  if (all_in && all_out) return s.local * others * s.block;
  if (all_in || all_out) return others * s.block;
  if (pattern.output.part == Part::nothing || s.c == 1) return 0;
  return pattern.has_root() ? s.block : s.local * s.block;
}

// Bytes of all ranks' inputs and outputs.
struct Sides {
  double inputs;
  double outputs;
};

// The root's own output of a broadcast is its input.
bool RootKeepsInput(const Pattern& pattern) { return pattern.input.of_root && pattern.output.part == Part::whole; }

Sides SidesOf(const Pattern& pattern, const Shares& s) {
  const auto bytes = [&](const Side& side) {
    if (side.part == Part::nothing) return 0.0;
    return (side.of_root ? 1 : s.n) * (side.part == Part::all ? s.n : 1) * s.block;
  };
  return {bytes(pattern.input), bytes(pattern.output) - (RootKeepsInput(pattern) ? s.block : 0)};
}

// Where there is a root, data go one way only, so that the senders can run ahead.
double LatencyUs(const Pattern& pattern, int ranks, const Limits& limits) {
  if (pattern.has_root()) return 0;
  const int used = std::min(ranks, limits.cores);
  const int on_fullest = (ranks + used - 1) / used;
  return used > 1 ? std::max(limits.line_round_trip_us, (on_fullest - 1) * limits.yield_round_trip_us) / 2
                  : (on_fullest - 1) * limits.yield_round_trip_us / 2;
}

// Whether it overwrites, in place, blocks that other ranks have to read.
bool ChangesInputs(const Operation& operation) {
  const Pattern& pattern = PatternOf(operation.collective);
  return operation.in_place && !pattern.has_root() && pattern.input.part == pattern.output.part;
}

// Bytes that the output and the input share in place: the smaller lies inside the larger.
double OverlapInPlace(const Sides& sides) { return std::min(sides.inputs, sides.outputs); }

}  // namespace

Traffic TrafficOf(const Operation& operation, int ranks, int cores) {
  const int used = std::min(ranks, cores);
  const Shares shares = SharesOf(operation, ranks, used);
  const Pattern& pattern = PatternOf(operation.collective);
  const Sides sides = SidesOf(pattern, shares);
  Traffic traffic;
  traffic.reduces = pattern.reduces;
  traffic.crossing = Crossing(pattern, shares);
  traffic.streamed = sides.inputs + sides.outputs;
  traffic.handled = traffic.reduces ? traffic.streamed : 2 * sides.outputs;
  double kept = sides.inputs + sides.outputs;
  if (operation.in_place && !RootKeepsInput(pattern)) kept -= OverlapInPlace(sides);
  traffic.working_set = kept / used;
  return traffic;
}

double BoundUs(const Operation& operation, int ranks, const Limits& limits) {
  if (ranks == 1) return 0;  // nothing must move
  const Traffic traffic = TrafficOf(operation, ranks, limits.cores);
  const double latency = LatencyUs(PatternOf(operation.collective), ranks, limits);
  if (traffic.streamed == 0) return latency;
  const CoreBandwidth& cores = limits.With(std::min(ranks, limits.cores));
  const BandwidthCurve curve =
      traffic.reduces ? Better(cores.add, cores.add_nontemporal) : Better(cores.copy, cores.copy_nontemporal);
  const double streaming =
      std::max(traffic.streamed / curve.At(traffic.working_set), traffic.handled / curve.Highest());
  const double ways = HasRoot(operation.collective) ? 2 : 1;
  const bool kept = !ChangesInputs(operation) && traffic.working_set + traffic.crossing <= limits.private_cache_bytes;
  const double crossing =
      kept || limits.crossing.points().empty() ? 0 : traffic.crossing / (ways * limits.crossing.Highest());
  return std::max({latency, streaming / kBytesPerUsOfOneGbs, crossing / kBytesPerUsOfOneGbs});
}

double LinkBoundUs(const Operation& operation, int ranks, int hosts, double link) {
  return Crossing(PatternOf(operation.collective), SharesOf(operation, ranks, hosts)) / (link * kBytesPerUsOfOneGbs);
}

}  // namespace tutti::bench
