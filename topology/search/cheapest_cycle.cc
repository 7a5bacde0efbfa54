#include "topology/search/cheapest_cycle.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

namespace tutti::search {
namespace {

// 2^9 subsets x 9^2 moves is a tenth of a millisecond; each further point more than doubles it.
constexpr int kExactPoints = 10;
// Starts of the nearest-neighbour trips; more hardly ever find a better trip among 16 GPUs. Among many points one start
// has to suffice.
constexpr int kStarts = 4;
constexpr int kManyPoints = 32;
// Longest part of a trip that is moved elsewhere as a whole (Or 1976).
constexpr int kLongestMove = 3;
// Rounds of improvement: the most, and the usual number.
constexpr int kRounds = 16;
constexpr int kUsualRounds = 4;
// Beyond, a nearest-neighbour trip suffices: machines of this size have switches, which make all orders alike.
constexpr int kImprovedPoints = 128;

constexpr int StartsFor(int points) { return points <= kManyPoints ? kStarts : 1; }

class Trip {
 public:
  Trip(const std::vector<double>& cost, int points) : cost_(cost), points_(points) {
    // A missing way is dearer than any trip without one, and two of them are dearer than one.
    double sum = 1;
    for (double& c : cost_) sum += c < kNoWay ? std::abs(c) : 0;
    for (double& c : cost_) c = std::min(c, sum);
    dearest_ = sum;
  }

  std::vector<int> Best() {
    std::vector<int> best;
    const int starts = StartsFor(points_);
    for (int start = 0; start < starts; ++start) {
      std::vector<int> trip = Nearest(start * points_ / starts);
      if (points_ <= kImprovedPoints) Improve(trip);
      if (best.empty() || Length(trip) < Length(best)) best = trip;
    }
    if (Length(best) >= dearest_) return {};
    std::rotate(best.begin(), std::find(best.begin(), best.end(), 0), best.end());
    return best;
  }

 private:
  double Cost(int from, int to) const { return cost_[from * points_ + to]; }

  double Length(const std::vector<int>& trip) const {
    double sum = Cost(trip.back(), trip.front());
    for (std::size_t i = 1; i < trip.size(); ++i) sum += Cost(trip[i - 1], trip[i]);
    return sum;
  }

  std::vector<int> Nearest(int start) const {
    std::vector<int> trip = {start};
    std::vector<bool> visited(points_, false);
    visited[start] = true;
    while (static_cast<int>(trip.size()) < points_) {
      int next = -1;
      for (int p = 0; p < points_; ++p) {
        if (!visited[p] && (next < 0 || Cost(trip.back(), p) < Cost(trip.back(), next))) next = p;
      }
      visited[next] = true;
      trip.push_back(next);
    }
    return trip;
  }

  void Improve(std::vector<int>& trip) const {
    for (int round = 0; round < kRounds; ++round) {
      const double least_gain = 1e-9 * Length(trip);  // more than rounding
      const bool turned = TurnParts(trip, least_gain);
      if (!MoveParts(trip, least_gain) && !turned) return;
    }
  }

  // Whether some part of the trip, excluding its start, was better reversed. The part's own length is summed up in both
  // directions while it grows.
  bool TurnParts(std::vector<int>& trip, double least_gain) const {
    bool turned = false;
    for (int first = 1; first + 1 < points_; ++first) {
      double there = 0;
      double back = 0;
      for (int last = first + 1; last < points_; ++last) {
        there += Cost(trip[last - 1], trip[last]);
        back += Cost(trip[last], trip[last - 1]);
        const int before = trip[first - 1];
        const int after = trip[(last + 1) % points_];
        const double gain = Cost(before, trip[first]) + there + Cost(trip[last], after) -
                            (Cost(before, trip[last]) + back + Cost(trip[first], after));
        if (gain <= least_gain) continue;
        std::reverse(trip.begin() + first, trip.begin() + last + 1);
        std::swap(there, back);
        turned = true;
      }
    }
    return turned;
  }

  // Whether some short part was better elsewhere.
  bool MoveParts(std::vector<int>& trip, double least_gain) const {
    bool moved = false;
    for (int part = 1; part <= kLongestMove; ++part) {
      for (int from = 1; from + part <= points_; ++from) moved = MovePart(trip, from, part, least_gain) || moved;
    }
    return moved;
  }

  // Moves the part to the first better place, between `a` and `b`.
  bool MovePart(std::vector<int>& trip, int from, int part, double least_gain) const {
    const int end = from + part;
    const int first = trip[from];
    const int last = trip[end - 1];
    const int before = trip[from - 1];
    const int after = trip[end % points_];
    const double leaving = Cost(before, first) + Cost(last, after) - Cost(before, after);
    for (int place = 0; place < points_; ++place) {
      if (place >= from - 1 && place < end) continue;  // where it is
      const int a = trip[place];
      const int b = trip[(place + 1) % points_];
      if (leaving + Cost(a, b) - Cost(a, first) - Cost(last, b) <= least_gain) continue;
      const auto at = [&](int position) { return trip.begin() + position; };
      if (place < from) {
        std::rotate(at(place + 1), at(from), at(end));
      } else {
        std::rotate(at(from), at(end), at(place + 1));
      }
      return true;
    }
    return false;
  }

  std::vector<double> cost_;
  int points_;
  double dearest_;
};

// best[set][first]: the cheapest way from `first` through the other points of `set` (bit p - 1 is point p) to point 0.
std::vector<int> Exact(const std::vector<double>& cost, int points) {
  const int others = points - 1;
  const std::uint32_t all = (1U << others) - 1;
  const auto at = [&](std::uint32_t set, int first) { return static_cast<std::size_t>(set) * others + first; };
  std::vector<double> best((all + 1UL) * others, kNoWay);
  std::vector<std::int8_t> after((all + 1UL) * others, -1);
  for (int p = 0; p < others; ++p) best[at(1U << p, p)] = cost[(p + 1) * points];
  for (std::uint32_t set = 1; set <= all; ++set) {
    for (int first = 0; first < others; ++first) {
      const double rest = best[at(set, first)];
      if (rest == kNoWay) continue;
      for (int before = 0; before < others; ++before) {
        if ((set >> before & 1U) != 0) continue;
        const double total = cost[(before + 1) * points + first + 1] + rest;
        const std::size_t longer = at(set | 1U << before, before);
        if (total >= best[longer]) continue;
        best[longer] = total;
        after[longer] = static_cast<std::int8_t>(first);
      }
    }
  }
  int first = -1;
  double shortest = kNoWay;
  for (int p = 0; p < others; ++p) {
    const double total = cost[p + 1] + best[at(all, p)];
    if (total >= shortest) continue;
    shortest = total;
    first = p;
  }
  if (first < 0) return {};
  std::vector<int> trip = {0};
  for (std::uint32_t set = all; first >= 0;) {
    trip.push_back(first + 1);
    const int next = after[at(set, first)];
    set &= ~(1U << first);
    first = next;
  }
  return trip;
}

}  // namespace

long CheapestCycleEffort(int points) {
  const long ways = static_cast<long>(points) * points;
  if (points <= kExactPoints) return (1L << points) * ways / 16;  // simple steps, several at a time
  const int rounds = points <= kImprovedPoints ? kUsualRounds * (kLongestMove + 1) : 1;
  return StartsFor(points) * rounds * ways;
}

std::vector<int> CheapestCycle(const std::vector<double>& cost, int points) {
  if (points < 2) return {};
  return points <= kExactPoints ? Exact(cost, points) : Trip(cost, points).Best();
}

}  // namespace tutti::search
