#include "selection/simulator/flows.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace tutti::simulator {
namespace {

// 1 GB/s in bytes a picosecond.
constexpr double kBytesPerPicosecond = 1e-3;
// Sums of rates are compared to within rounding.
constexpr double kRounding = 1e-9;

Time Duration(double bytes, double rate) {
  return bytes <= 0 || std::isinf(rate) ? 0 : static_cast<Time>(std::llround(bytes / rate));
}

}  // namespace

Flows::Flows(std::span<const double> bandwidths) {
  resources_.reserve(bandwidths.size());
  for (const double bandwidth : bandwidths) resources_.push_back({.bandwidth = bandwidth * kBytesPerPicosecond});
}

void Flows::Add(std::span<const int> resources) {
  const auto flow = static_cast<int>(flows_.size());
  flows_.push_back(
      {.first = static_cast<std::uint32_t>(uses_.size()), .uses = static_cast<std::uint32_t>(resources.size())});
  for (const int resource : resources) uses_.push_back({flow, resource, 0});
}

void Flows::Touch(int resource) {
  if (resources_[resource].touched) return;
  resources_[resource].touched = true;
  touched_.push_back(resource);
}

void Flows::Start(int index, double bytes, double peak, Time now) {
  Flow& flow = flows_[index];
  flow.bytes = flow.left = bytes;
  flow.since = now;
  flow.rate = 0;
  flow.peak = peak * kBytesPerPicosecond;
  for (const Use& use : UsesOf(flow)) {
    // Crossed twice, a resource gives half.
    const auto crossings = std::count_if(UsesOf(flow).begin(), UsesOf(flow).end(),
                                         [&use](const Use& other) { return other.resource == use.resource; });
    flow.peak = std::min(flow.peak, resources_[use.resource].bandwidth / static_cast<double>(crossings));
  }
  for (std::uint32_t i = flow.first; i < flow.first + flow.uses; ++i) {
    Resource& resource = resources_[uses_[i].resource];
    uses_[i].place = static_cast<std::uint32_t>(resource.uses.size());
    resource.uses.push_back(i);
    resource.demand += flow.peak;
    Touch(uses_[i].resource);
  }
  started_.push_back(index);
}

void Flows::End(int index) {
  Flow& flow = flows_[index];
  ++flow.version;
  for (const Use& use : UsesOf(flow)) {
    Resource& resource = resources_[use.resource];
    resource.bytes += flow.bytes;
    const std::uint32_t last = resource.uses.back();
    resource.uses[use.place] = last;
    uses_[last].place = use.place;
    resource.uses.pop_back();
    resource.demand = resource.uses.empty() ? 0 : resource.demand - flow.peak;
    Touch(use.resource);
  }
}

void Flows::Collect(int flow) {
  if (flows_[flow].collected) return;
  flows_[flow].collected = true;
  flows_[flow].shared = false;
  collected_.push_back(flow);
}

// Collects all flows that this instant's starts and ends affect.
void Flows::CollectJoined() {
  for (const int index : touched_) {
    Resource& resource = resources_[index];
    const bool was_tight = resource.tight;
    resource.touched = false;
    resource.tight = resource.demand > resource.bandwidth * (1 + kRounding);
    if (!resource.tight && !was_tight) continue;
    for (const std::uint32_t use : resource.uses) Collect(uses_[use].flow);
  }
  for (const int flow : started_) Collect(flow);
  for (std::size_t i = 0; i < collected_.size(); ++i) {
    for (const Use& use : UsesOf(flows_[collected_[i]])) {
      Resource& resource = resources_[use.resource];
      if (!resource.tight || resource.reached) continue;
      resource.reached = true;
      resource.left = resource.bandwidth;
      resource.sharers = static_cast<int>(resource.uses.size());
      tight_.push_back(use.resource);
      for (const std::uint32_t other : resource.uses) Collect(uses_[other].flow);
    }
  }
}

void Flows::Fix(Flow& flow, double rate) {
  flow.shared = true;
  new_rates_.push_back(rate);
  for (const Use& use : UsesOf(flow)) {
    Resource& resource = resources_[use.resource];
    resource.left = std::max(0.0, resource.left - rate);
    --resource.sharers;
  }
}

// Raises all flows alike; a flow stops at its peak or when one of its resources is full. Shares only grow as flows drop
// out, so a heap entry may be too small but never too large.
void Flows::Share() {
  std::sort(collected_.begin(), collected_.end(), [this](int a, int b) {
    return flows_[a].peak != flows_[b].peak ? flows_[a].peak < flows_[b].peak : a < b;
  });
  for (const int index : tight_) by_share_.emplace_back(resources_[index].left / resources_[index].sharers, index);
  std::make_heap(by_share_.begin(), by_share_.end(), std::greater<>());
  std::vector<int>& order = changed_;  // in the order of new_rates_
  order.clear();
  const auto fix = [&](int flow, double rate) {
    if (flows_[flow].shared) return;
    order.push_back(flow);
    Fix(flows_[flow], rate);
  };
  std::size_t next = 0;
  while (next < collected_.size()) {
    if (flows_[collected_[next]].shared) {
      ++next;
      continue;
    }
    const double peak = flows_[collected_[next]].peak;
    double share = std::numeric_limits<double>::infinity();
    if (!by_share_.empty()) {
      const auto [known, index] = by_share_.front();
      const Resource& resource = resources_[index];
      const double now = resource.sharers > 0 ? resource.left / resource.sharers : share;
      if (now > known) {
        std::pop_heap(by_share_.begin(), by_share_.end(), std::greater<>());
        by_share_.pop_back();
        if (resource.sharers > 0) {
          by_share_.emplace_back(now, index);
          std::push_heap(by_share_.begin(), by_share_.end(), std::greater<>());
        }
        continue;
      }
      share = now;
    }
    if (peak <= share) {
      fix(collected_[next++], peak);
    } else {
      for (const std::uint32_t use : resources_[by_share_.front().second].uses) fix(uses_[use].flow, share);
    }
  }
}

void Flows::Settle(Time now) {
  CollectJoined();
  Share();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < changed_.size(); ++i) {
    Flow& flow = flows_[changed_[i]];
    flow.collected = false;
    const double rate = new_rates_[i];
    if (rate == flow.rate) continue;
    flow.left -= flow.rate * static_cast<double>(now - flow.since);
    flow.since = now;
    flow.rate = rate;
    flow.end = now + Duration(flow.left, rate);
    ++flow.version;
    changed_[kept++] = changed_[i];
  }
  changed_.resize(kept);
  for (const int index : tight_) resources_[index].reached = false;
  for (auto* list : {&started_, &touched_, &collected_, &tight_}) list->clear();
  new_rates_.clear();
  by_share_.clear();
}

}  // namespace tutti::simulator
