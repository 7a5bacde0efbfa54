#include "bench/limits/bound.h"

#include <algorithm>
#include <cmath>

#include "base/numbers/datatype.h"

namespace tutti::bench {
namespace {

constexpr double kBytesPerUsOfOneGbs = 1e3;

struct Shares {
  double n;      // ranks
  double c;      // cores that have ranks
  double local;  // ranks on the fullest core
  double block;  // bytes of count elements
};

double Crossing(Collective collective, const Shares& s) {
  const double others = s.n - s.local;  // ranks on cores other than the fullest
  switch (collective) {
    case Collective::all_reduce:
    case Collective::reduce: return 2 * (s.c - 1) / s.c * s.block;
    case Collective::reduce_scatter: return (s.c - 1) * s.local * s.block;
    case Collective::all_gather:
    case Collective::gather:
    case Collective::scatter: return others * s.block;
    case Collective::all_to_all:
    case Collective::all_to_all_v: return s.local * others * s.block;
    case Collective::broadcast: return s.c > 1 ? s.block : 0;
    case Collective::send_recv: return s.c > 1 ? s.local * s.block : 0;
    case Collective::barrier: return 0;
  }
  return 0;
}

// Bytes of all ranks' inputs and outputs.
struct Sides {
  double inputs;
  double outputs;
};

Sides SidesOf(Collective collective, const Shares& s) {
  const double one = s.block;
  const double each = s.n * s.block;
  const double all = s.n * s.n * s.block;
  switch (collective) {
    case Collective::all_reduce:
    case Collective::send_recv: return {each, each};
    case Collective::reduce: return {each, one};
    case Collective::reduce_scatter: return {all, each};
    case Collective::all_gather: return {each, all};
    case Collective::all_to_all:
    case Collective::all_to_all_v: return {all, all};
    case Collective::broadcast: return {one, each - one};
    case Collective::gather:
    case Collective::scatter: return {each, each};
    case Collective::barrier: return {0, 0};
  }
  return {0, 0};
}

// Data go from some ranks to others only, so that the senders can run ahead.
bool OneWay(Collective collective) {
  switch (collective) {
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::gather:
    case Collective::scatter: return true;
    default: return false;
  }
}

double LatencyUs(Collective collective, int ranks, const Limits& limits) {
  if (OneWay(collective)) return 0;
  const int used = std::min(ranks, limits.cores);
  const int on_fullest = (ranks + used - 1) / used;
  return used > 1 ? std::max(limits.line_round_trip_us, (on_fullest - 1) * limits.yield_round_trip_us) / 2
                  : (on_fullest - 1) * limits.yield_round_trip_us / 2;
}

// In place, these overwrite blocks that other ranks have to read.
bool ChangesInputs(const Operation& operation) {
  switch (operation.collective) {
    case Collective::all_reduce:
    case Collective::all_to_all:
    case Collective::all_to_all_v: return operation.in_place;
    default: return false;
  }
}

// Bytes that the output and the input share in place: the smaller lies inside the larger.
double OverlapInPlace(const Sides& sides) { return std::min(sides.inputs, sides.outputs); }

}  // namespace

Traffic TrafficOf(const Operation& operation, int ranks, int cores) {
  const int used = std::min(ranks, cores);
  const Shares shares = {static_cast<double>(ranks), static_cast<double>(used),
                         static_cast<double>((ranks + used - 1) / used),
                         static_cast<double>(operation.count * SizeOf(operation.type))};
  const Sides sides = SidesOf(operation.collective, shares);
  Traffic traffic;
  traffic.reduces = Reduces(operation.collective);
  traffic.crossing = Crossing(operation.collective, shares);
  traffic.streamed = sides.inputs + sides.outputs;
  traffic.handled = traffic.reduces ? traffic.streamed : 2 * sides.outputs;
  double kept = sides.inputs + sides.outputs;
  // A broadcast leaves the root's buffer alone.
  if (operation.in_place && operation.collective != Collective::broadcast) kept -= OverlapInPlace(sides);
  traffic.working_set = kept / used;
  return traffic;
}

double BoundUs(const Operation& operation, int ranks, const Limits& limits) {
  if (ranks == 1) return 0;  // nothing must move
  const Traffic traffic = TrafficOf(operation, ranks, limits.cores);
  const double latency = LatencyUs(operation.collective, ranks, limits);
  if (traffic.streamed == 0) return latency;
  const CoreBandwidth& cores = limits.With(std::min(ranks, limits.cores));
  const BandwidthCurve curve =
      traffic.reduces ? Better(cores.add, cores.add_nontemporal) : Better(cores.copy, cores.copy_nontemporal);
  const double streaming =
      std::max(traffic.streamed / curve.At(traffic.working_set), traffic.handled / curve.Highest());
  const double ways = OneWay(operation.collective) ? 2 : 1;
  const bool kept = !ChangesInputs(operation) && traffic.working_set + traffic.crossing <= limits.private_cache_bytes;
  const double crossing =
      kept || limits.crossing.points().empty() ? 0 : traffic.crossing / (ways * limits.crossing.Highest());
  return std::max({latency, streaming / kBytesPerUsOfOneGbs, crossing / kBytesPerUsOfOneGbs});
}

}  // namespace tutti::bench
