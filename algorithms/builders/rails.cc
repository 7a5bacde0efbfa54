#include "algorithms/builders/rails.h"

#include <algorithm>

namespace tutti::builders {

Rails::Rails(const ScheduleRequest& request)
    : alone_(request.where == nullptr ? ArrangeEvenly(request.nranks, 1) : RankLayout{}),
      ranks_on_(request.where == nullptr ? alone_.ranks_on : request.where->ranks_on),
      node_of_(request.where == nullptr ? alone_.node_of : request.where->node_of) {
  const auto [least, most] = std::ranges::minmax_element(ranks_on_, {}, [](const auto& ranks) { return ranks.size(); });
  width_ = static_cast<int>(least->size());
  rails_ = static_cast<int>(most->size());
}

int Rails::IndexOf(int rank) const {
  const auto& ranks = ranks_on_[node_of_[rank]];
  return static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin());
}

}  // namespace tutti::builders
