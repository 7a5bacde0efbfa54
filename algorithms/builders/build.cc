#include "algorithms/builders/build.h"

#include <algorithm>

#include "algorithms/builders/builders.h"
#include "algorithms/builders/records.h"

namespace tutti::builders {

std::optional<Schedule> Build(tuttiAlgorithm_t algorithm, const ScheduleRequest& request) {
  if (!Supports(algorithm, request.collective, request.nranks)) return std::nullopt;
  const auto& record = RecordOf(algorithm);
  // With one rank, every algorithm is the same copy.
  Schedule schedule = request.nranks == 1 ? BuildDirect(request) : record.build(request);
  schedule.algorithm = algorithm;
  schedule.one_lane_safe = request.nranks == 1 || record.one_lane_safe;
  return schedule;
}

bool Supports(tuttiAlgorithm_t algorithm, Collective collective, int nranks) {
  if (algorithm < 0 || algorithm >= tuttiNumAlgorithms || nranks < 1) return false;
  const auto& record = RecordOf(algorithm);
  const int most = IsReducing(collective) ? std::min(record.most_ranks, record.most_ranks_reducing) : record.most_ranks;
  return Has(record.forms, collective) && nranks <= most;
}

}  // namespace tutti::builders
