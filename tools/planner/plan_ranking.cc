#include "tools/planner/plan_ranking.h"

#include <algorithm>

namespace tutti::tools {
namespace {

double Seconds(const Evaluated& row) { return row.time.total(); }

}  // namespace

PlanRanking::PlanRanking(const Cluster& cluster, const LanguageModel& model, const std::vector<Strategy>& legal,
                         TimeSource source)
    : model_(model),
      source_(source),
      prices_(cluster, model, TimeSource::price),
      simulations_(cluster, model, TimeSource::simulation) {
  report::Progress progress(static_cast<int>(legal.size()));
  for (const auto& strategy : legal) {
    progress.Step("pricing " + ToString(strategy));
    const auto memory = MemoryOf(strategy, model);
    if (memory.total() <= cluster.room()) {
      by_price_.push_back({strategy, memory, prices_.TimeOf(strategy)});
    } else {
      too_large_.push_back({strategy, memory, {}});
    }
  }
  std::ranges::stable_sort(by_price_, {}, Seconds);
  std::ranges::stable_sort(too_large_, {}, [](const Evaluated& row) { return row.memory.total(); });
}

StepTime PlanRanking::TimeOf(const Evaluated& priced, report::Progress& progress) {
  if (source_ == TimeSource::price) return priced.time;
  progress.Step("simulating " + ToString(priced.strategy));
  return simulations_.TimeOf(priced.strategy);
}

std::vector<Evaluated> PlanRanking::Fastest(std::size_t most, const Filter& filter) {
  std::vector<Evaluated> fastest;
  report::Progress progress;
  for (const auto& row : by_price_) {
    if (fastest.size() == most && Seconds(row) > Seconds(fastest.back())) break;
    if (!filter(row.strategy)) continue;
    const Evaluated timed{row.strategy, row.memory, TimeOf(row, progress)};
    fastest.insert(std::ranges::upper_bound(fastest, Seconds(timed), {}, Seconds), timed);
    if (fastest.size() > most) fastest.pop_back();
  }
  return fastest;
}

Evaluated PlanRanking::Of(const Strategy& strategy) {
  const Evaluated priced{strategy, MemoryOf(strategy, model_), prices_.TimeOf(strategy)};
  report::Progress progress;
  return {strategy, priced.memory, TimeOf(priced, progress)};
}

std::size_t PlanRanking::Faster(double seconds) {
  std::size_t faster = 0;
  report::Progress progress;
  for (const auto& row : by_price_) {
    if (Seconds(row) >= seconds) break;
    if (TimeOf(row, progress).total() < seconds) ++faster;
  }
  return faster;
}

}  // namespace tutti::tools
