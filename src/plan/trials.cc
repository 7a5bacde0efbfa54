#include "src/plan/trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "algorithms/builders/records.h"
#include "base/log.h"
#include "base/numbers/datatype.h"
#include "selection/tuner/explain.h"
#include "src/plan/planning.h"

namespace tutti::plan {
namespace {

TrialWords::Plan ToWords(const tuner::Estimate& plan) {
  const auto& [algorithm, channels, config] = plan.candidate;
  return {static_cast<float>(algorithm), static_cast<float>(channels),           static_cast<float>(config.protocol),
          config.cma ? 1.0F : 0.0F,      static_cast<float>(config.chunk_bytes), static_cast<float>(plan.us)};
}

tuner::Estimate FromWords(const TrialWords::Plan& plan) {
  tuner::Estimate estimate;
  estimate.algorithm = static_cast<tuttiAlgorithm_t>(plan.algorithm);
  estimate.candidate = {
      estimate.algorithm,
      static_cast<int>(plan.channels),
      {static_cast<ring::Protocol>(plan.protocol), static_cast<std::size_t>(plan.chunk_bytes), plan.cma != 0}};
  estimate.us = plan.predicted_us;
  return estimate;
}

// Additions of floating-point numbers: another order gives other last bits.
bool OrderMatters(const Operation& operation) {
  return schedule::IsReducing(operation.collective) && IsFloat(operation.type) && operation.op != tuttiMin &&
         operation.op != tuttiMax;
}

}  // namespace

TrialWords Trial::Mine(bool lists) const {
  TrialWords words;
  for (std::size_t plan = 0; plan < us_.size(); ++plan) {
    const auto [fastest, slowest] = std::ranges::minmax(us_[plan]);
    words.minus_fastest_us[plan] = static_cast<float>(-fastest);
    words.minus_slowest_us[plan] = static_cast<float>(-slowest);
  }
  if (stage_ != Stage::waiting || !lists) return words;
  std::size_t plans = 0;
  for (const auto& plan : list_()) {
    if (plans < words.plan.size()) words.plan[plans++] = ToWords(plan);
  }
  words.plans = static_cast<float>(plans);
  return words;
}

void Trial::Try() {
  stage_ = Stage::trying;
  calls_ = 0;
  next_exchange_ = kRounds * in_a_row_ * plans_.size();
}

void Trial::Serve(std::size_t plan, const Took& us) {
  stage_ = Stage::serving;
  serving_ = plan;
  took_[plan] = us;
  calls_ = 0;
  next_exchange_ = looks_every_ / in_a_row_ * in_a_row_;  // after whole runs
  looks_every_ = std::min(2 * looks_every_, kRarestLook);
}

Trial::Took Trial::TookBy(const TrialWords& all, std::size_t plan) {
  return {-all.minus_fastest_us[plan], -all.minus_slowest_us[plan]};
}

std::string Trial::Took::Text() const { return fmt::format("{:.1f} to {:.1f} us", fastest, slowest); }

std::string Trial::Conclude(const TrialWords& all) {
  switch (stage_) {
    case Stage::usual: {
      // Among the first calls are some that connect ranks, and some that find all data there.
      const double us = std::max(1.0, std::sqrt(TookBy(all, 0).fastest * TookBy(all, 0).slowest));
      in_a_row_ = std::clamp(static_cast<std::uint64_t>(kRunUs / us), kFewestInARow, kMostInARow);
      stage_ = Stage::waiting;
      calls_ = 0;
      next_exchange_ = static_cast<std::uint64_t>(kWorthTryingUs / us) + 1;
      return "";
    }
    case Stage::waiting: {
      for (const auto& plan : all.plan) {
        if (plans_.size() < static_cast<std::size_t>(all.plans)) plans_.push_back(FromWords(plan));
      }
      if (plans_.size() > 1) {
        Try();
      } else {
        stage_ = Stage::serving;
        next_exchange_ = kNever;
      }
      return "";
    }
    case Stage::trying: {
      std::string text;
      const std::size_t before = serving_;
      std::size_t best = before;
      for (std::size_t i = 0; i < plans_.size(); ++i) {
        took_[i] = TookBy(all, i);
        text += fmt::format("{}{} {} (predicted {:.1f})", i == 0 ? "" : ", ", tuner::ToString(plans_[i].candidate),
                            took_[i].Text(), plans_[i].us);
      }
      for (std::size_t i = 0; i < plans_.size(); ++i) {
        const bool faster = took_[i].slowest < kWorthChanging * took_[before].fastest;
        if (faster && (best == before || took_[i].slowest < took_[best].slowest)) best = i;
      }
      Serve(best, took_[best]);
      return fmt::format("{}: tried {}; {} {}", call_, text, builders::NameOf(plans_[best].algorithm),
                         best == before ? "stays" : "serves from now on");
    }
    case Stage::serving: break;
  }
  const Took before = took_[serving_], now = TookBy(all, 0);
  if (now.fastest < kOtherThanBefore * before.slowest && before.fastest < kOtherThanBefore * now.slowest) {
    Serve(serving_, before);
    return "";
  }
  Try();
  return fmt::format("{} takes {} now, and took {}: its plans are tried again", call_, now.Text(), before.Text());
}

// The mean of many calls in a row tells more than single calls: where ranks share a core, the same plan's calls are short and long
// in turns, and it takes the system some time slices to settle.
void Trial::Add(double us) {
  const std::uint64_t run = calls_ / in_a_row_, plans = stage_ == Stage::trying ? plans_.size() : 1;
  auto& mean = us_[run % plans][run / plans % kRounds];
  const std::uint64_t begins = std::max<std::uint64_t>(1, in_a_row_ / 4), in_run = calls_ % in_a_row_;
  if (in_run == 0) mean = 0;
  if (in_run >= begins) mean += us / static_cast<double>(in_a_row_ - begins);
  ++calls_;
}

std::string Trial::Reason(std::size_t plan) const {
  if (plans_.size() < 2) return "";
  if (stage_ == Stage::trying) return fmt::format("on trial, predicted {:.1f} us", plans_[plan].us);
  const auto own = fmt::format("took {} on trial, predicted {:.1f}", took_[plan].Text(), plans_[plan].us);
  if (plan == 0) return own;
  return fmt::format("{}; {}, which is cheapest by price, took {}", own, builders::NameOf(plans_.front().algorithm),
                     took_.front().Text());
}

Trials::Trials(int rank, bool all_types, Lister lister)
    : rank_(rank), all_types_(all_types), lister_(std::move(lister)) {
  exchange_.collective = schedule::Collective::all_reduce;
  exchange_.own = true;
  exchange_.type = tuttiFloat32;
  exchange_.op = tuttiMax;
  exchange_.count = sizeof words_ / sizeof(float);
  exchange_.input = &words_;
  exchange_.output = &words_;
  exchange_.in_place = true;
}

Trial* Trials::Of(const Operation& operation, std::uint64_t packed) {
  // A call that a rank may end alone makes no rank wait for all others, so no exchange may precede it.
  if (operation.own || !operation.collective_call() || operation.collective == schedule::Collective::barrier ||
      MayEndAlone(operation) || !operation.plain() || operation.scaled || (OrderMatters(operation) && !all_types_)) {
    return nullptr;
  }
  const std::pair key(packed, static_cast<std::uint64_t>(operation.count));
  const auto found = trials_.find(key);
  if (found != trials_.end()) return &found->second;
  if (trials_.size() == kMostTrials) return nullptr;
  auto list = [this, kind = KindOf(operation), bytes = LargestBlockBytes(operation)] { return lister_(kind, bytes); };
  return &trials_.emplace(key, Trial(DescribeCall(packed, operation.count), std::move(list))).first->second;
}

const Operation* Trials::Before(const Operation& next) {
  auto* const trial = Of(next, PackCall(next));
  if (trial == nullptr || !trial->due()) return nullptr;
  exchanging_ = trial;
  words_ = trial->Mine(rank_ == 0);
  exchange_.site = next.site;
  exchange_.site_text = next.site_text;
  return &exchange_;
}

void Trials::Exchanged() {
  const auto concluded = exchanging_->Conclude(words_);
  if (rank_ == 0 && !concluded.empty()) Log(Subject::select, "{}", concluded);
}

}  // namespace tutti::plan
