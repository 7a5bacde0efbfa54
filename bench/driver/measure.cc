#include "bench/driver/measure.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bench/driver/launch.h"
#include "bench/report/statistics.h"

namespace tutti::bench {
namespace {

constexpr double kLeastTrialUs = 500;  // shorter trials would mostly measure startup cost
constexpr int kMostTrialCalls = 4096;
constexpr int kMostBatches = 2000;     // beyond that, the median gains less than the time costs
constexpr double kWarmupShare = 0.25;  // of the budget, at most

double OverRanksOf(const std::vector<double>& times, OverRanks how) {
  switch (how) {
    case OverRanks::first: return times.front();
    case OverRanks::mean: return Mean(times);
    case OverRanks::least: return *std::min_element(times.begin(), times.end());
    case OverRanks::greatest: break;
  }
  return *std::max_element(times.begin(), times.end());
}

struct Loop {
  int warmup = 0;
  int batch = 1;
  int batches = 1;
};

std::vector<double> Time(Team& team, const Loop& loop, const MeasurePlan& plan, std::string* algorithm) {
  const std::vector<Json> replies = team.Ask(
      {{"do", "time"}, {"warmup", loop.warmup}, {"batch", loop.batch}, {"batches", loop.batches}}, plan.timeout);
  std::vector<std::vector<double>> by_rank;
  for (const Json& reply : replies) by_rank.push_back(reply.at("us"));
  *algorithm = replies.front().at("algorithm");
  std::vector<double> result;
  for (int batch = 0; batch < loop.batches; ++batch) {
    std::vector<double> times;
    for (const auto& rank : by_rank) times.push_back(rank.at(static_cast<std::size_t>(batch)));
    result.push_back(OverRanksOf(times, plan.over_ranks));
  }
  return result;
}

// Runs the loop in a few parts: when calls turn out slower than estimated, the later parts are skipped.
std::vector<double> TimeWithinBudget(Team& team, const Loop& loop, const MeasurePlan& plan, std::string* algorithm) {
  if (plan.iterations) return Time(team, loop, plan, algorithm);
  constexpr int kParts = 8;
  const auto deadline = std::chrono::steady_clock::now() + plan.budget;
  Loop part = loop;
  part.batches = std::max(loop.batches / kParts, plan.fewest_batches);
  std::vector<double> result;
  do {
    const std::vector<double> us = Time(team, part, plan, algorithm);
    result.insert(result.end(), us.begin(), us.end());
    part.warmup = std::min(loop.warmup, 1);  // after a pause in the bench, only the pipeline is cold
  } while (std::ssize(result) < loop.batches && std::chrono::steady_clock::now() < deadline);
  return result;
}

double EstimateUs(Team& team, const MeasurePlan& plan) {
  constexpr int kGrowth = 16;
  std::string algorithm;
  for (int calls = 1;; calls *= kGrowth) {
    const double us = Time(team, {0, calls, 1}, plan, &algorithm).front();
    const int most = std::min(kMostTrialCalls, plan.most_calls_in_batch);
    if (us * calls >= kLeastTrialUs || calls >= most) return std::max(us, 1e-3);
  }
}

Loop PlanLoop(double call_us, const MeasurePlan& plan) {
  Loop loop;
  const double budget_us = static_cast<double>(plan.budget.count()) * 1000;
  const double batch_us = std::max(plan.least_batch_us, budget_us / kMostBatches);
  loop.batch = static_cast<int>(
      std::clamp<double>(std::ceil(batch_us / call_us), 1, static_cast<double>(plan.most_calls_in_batch)));
  if (plan.iterations) {
    loop.warmup = plan.warmup;
    loop.batch = std::min(loop.batch, *plan.iterations);
    loop.batches = std::max(1, *plan.iterations / loop.batch);
  } else {
    const double most_warmup = kWarmupShare * budget_us / call_us;  // the estimate has already warmed up slow ones
    loop.warmup = static_cast<int>(std::min<double>(plan.warmup, most_warmup));
    const double affordable = budget_us / call_us / loop.batch;
    loop.batches = static_cast<int>(std::clamp<double>(affordable, plan.fewest_batches, kMostBatches));
  }
  return loop;
}

// Which libraries, after one repetition, are so slow that more repetitions would be a waste of time.
std::vector<bool> Hopeless(const std::vector<std::vector<double>>& medians, double factor) {
  double best = std::numeric_limits<double>::infinity();
  for (const auto& repetitions : medians) {
    if (!repetitions.empty()) best = std::min(best, repetitions.front());
  }
  std::vector<bool> hopeless;
  for (const auto& repetitions : medians) {
    hopeless.push_back(factor > 0 && !repetitions.empty() && repetitions.front() > factor * best);
  }
  return hopeless;
}

std::size_t SumWrong(const std::vector<Json>& replies) {
  std::size_t wrong = 0;
  for (const Json& reply : replies) wrong += reply.at("wrong").get<std::size_t>();
  return wrong;
}

}  // namespace

Series Measure(Team& team, const Operation& operation, const MeasurePlan& plan, std::uint64_t seed) {
  Series series;
  const std::vector<Json> prepared = team.Ask({{"do", "prepare"}, {"operation", ToJson(operation)}}, plan.timeout);
  series.supported = std::all_of(prepared.begin(), prepared.end(),
                                 [](const Json& reply) { return reply.at("supported").get<bool>(); });
  if (!series.supported) return series;
  const auto check = [&](std::uint64_t with_seed) {
    series.wrong += SumWrong(team.Ask({{"do", "check"}, {"seed", with_seed}}, plan.timeout));
  };
  if (plan.check) check(seed);
  series.us = TimeWithinBudget(team, PlanLoop(EstimateUs(team, plan), plan), plan, &series.algorithm);
  if (plan.check) {
    series.wrong += SumWrong(team.Ask({{"do", "recheck"}}, plan.timeout));
    check(seed + 1);
  }
  team.Ask({{"do", "release"}}, plan.timeout);
  return series;
}

std::vector<Result> MeasureInterleaved(const std::vector<std::unique_ptr<Team>>& teams, const Operation& operation,
                                       const MeasurePlan& plan, int repetitions) {
  std::vector<Result> results(teams.size());
  std::vector<std::vector<double>> medians(teams.size()), all(teams.size());
  for (std::size_t i = 0; i < teams.size(); ++i) {
    results[i].library = teams[i]->library();
    results[i].refused = !teams[i]->refusal().empty();
  }
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    MeasurePlan this_time = plan;
    this_time.check = plan.check && repetition == 0;
    const std::vector<bool> hopeless = Hopeless(medians, plan.hopeless_factor);
    for (std::size_t turn = 0; turn < teams.size(); ++turn) {
      // Each repetition starts with another team, so that none always follows the same neighbour's warm or cold caches.
      const std::size_t i = (turn + static_cast<std::size_t>(repetition)) % teams.size();
      if (!teams[i]->alive() || (hopeless[i] && teams[i]->library() != kTutti)) continue;
      try {
        const Series series = Measure(*teams[i], operation, this_time, static_cast<std::uint64_t>(repetition) * 2 + 1);
        if (!series.supported) continue;
        medians[i].push_back(Median(series.us));
        all[i].insert(all[i].end(), series.us.begin(), series.us.end());
        results[i].wrong += series.wrong;
        results[i].checked |= this_time.check;
        results[i].algorithm = series.algorithm;
      } catch (const TeamLost& lost) {
        results[i].error = lost.what();
      }
    }
  }
  for (std::size_t i = 0; i < teams.size(); ++i) {
    Result& result = results[i];
    if (medians[i].empty() || !result.error.empty()) continue;
    result.measured = true;
    result.mean_us = Mean(all[i]);
    result.median_us = Median(medians[i]);
    result.least_median_us = *std::min_element(medians[i].begin(), medians[i].end());
    result.greatest_median_us = *std::max_element(medians[i].begin(), medians[i].end());
    result.p99_us = Percentile(all[i], 99);
  }
  return results;
}

}  // namespace tutti::bench
