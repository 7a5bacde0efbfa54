#include "algorithms/schedule/one_lane.h"

#include <algorithm>

#include "algorithms/schedule/binding.h"

namespace tutti::schedule {

Lane InOneLane(const Channel& channel) {
  const auto& lanes = channel.lanes;
  std::vector<std::size_t> next(lanes.size(), 0);  // step by lane
  const auto over = [&](std::size_t lane) { return next[lane] == lanes[lane].steps.size(); };
  const auto may_come = [&](std::size_t lane) {
    return !over(lane) && std::ranges::all_of(lanes[lane].steps[next[lane]].after, [&](const After& after) {
      return next[static_cast<std::size_t>(after.lane)] > static_cast<std::size_t>(after.step);
    });
  };
  const auto reads_slot = [&](std::size_t lane) {
    return std::ranges::any_of(lanes[lane].steps[next[lane]].reads,
                               [](const Operand& read) { return IsSlot(read.kind); });
  };
  Lane all;
  for (;;) {
    std::size_t chosen = lanes.size();
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      if (!may_come(lane)) continue;
      if (!reads_slot(lane)) {
        chosen = lane;
        break;
      }
      if (chosen == lanes.size()) chosen = lane;
    }
    if (chosen == lanes.size()) return all;
    all.steps.push_back(lanes[chosen].steps[next[chosen]++]);
    all.steps.back().after.clear();
  }
}

}  // namespace tutti::schedule
