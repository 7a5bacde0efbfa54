#include "topology/cheapest_cycle.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

namespace tutti {
namespace {

// 2^12 subsets x 12^2 moves is half a millisecond; each further point more than doubles it.
constexpr int kExactPoints = 13;
// Starts of the nearest-neighbour trips; more hardly ever find a better one among 16 GPUs.
constexpr int kStarts = 4;
// Longest part of a trip that is moved elsewhere as a whole (Or 1976).
constexpr int kLongestMove = 3;
// Rounds of improvement; it rarely takes more than four.
constexpr int kRounds = 16;
// Beyond, improving costs seconds, and a nearest-neighbour trip has to do.
constexpr int kImprovedPoints = 128;

class Trip {
 public:
  Trip(const std::vector<double>& cost, int points) : cost_(cost), points_(points) {
    // A missing way is dearer than any trip without one, yet two of them are dearer than one.
    double sum = 1;
    for (double& c : cost_) sum += c < kNoWay ? std::abs(c) : 0;
    for (double& c : cost_) c = std::min(c, sum);
    dearest_ = sum;
  }

  std::vector<int> Best() {
    std::vector<int> best;
    for (int start = 0; start < std::min(points_, kStarts); ++start) {
      std::vector<int> trip = Nearest(start * points_ / std::min(points_, kStarts));
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
    double length = Length(trip);
    for (int round = 0; round < kRounds; ++round) {
      const double before = length;
      TurnParts(trip, length);
      MoveParts(trip, length);
      if (length == before) return;
    }
  }

  void Keep(std::vector<int>& trip, const std::vector<int>& changed, double& length) const {
    const double changed_length = Length(changed);
    if (changed_length >= length * (1 - 1e-9)) return;  // shorter by more than rounding
    trip = changed;
    length = changed_length;
  }

  void TurnParts(std::vector<int>& trip, double& length) const {
    std::vector<int> changed;
    for (int first = 0; first + 1 < points_; ++first) {
      for (int last = first + 1; last < points_; ++last) {
        changed = trip;
        std::reverse(changed.begin() + first, changed.begin() + last + 1);
        Keep(trip, changed, length);
      }
    }
  }

  void MoveParts(std::vector<int>& trip, double& length) const {
    std::vector<int> changed;
    for (int part = 1; part <= kLongestMove; ++part) {
      for (int from = 0; from + part < points_; ++from) {
        for (int to = 0; to + part < points_; ++to) {
          changed = trip;
          const auto at = [&](int position) { return changed.begin() + position; };
          std::rotate(at(std::min(from, to)), to > from ? at(from + part) : at(from), at(std::max(from, to) + part));
          Keep(trip, changed, length);
        }
      }
    }
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

std::vector<int> CheapestCycle(const std::vector<double>& cost, int points) {
  if (points < 2) return {};
  return points <= kExactPoints ? Exact(cost, points) : Trip(cost, points).Best();
}

}  // namespace tutti
