#include "src/plan/trials.h"

#include <fmt/format.h>

#include <algorithm>

#include "algorithms/builders/records.h"
#include "base/log.h"
#include "base/numbers/datatype.h"
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
  for (std::size_t plan = 0; plan < words.us.size(); ++plan) words.us[plan] = Typical(plan);
  if (stage_ != Stage::usual || !lists) return words;
  std::size_t plans = 0;
  for (const auto& plan : list_()) {
    if (plans < words.plan.size()) words.plan[plans++] = ToWords(plan);
  }
  words.plans = static_cast<float>(plans);
  return words;
}

// The first quartile: disturbances, and waits for late ranks, only lengthen. A rank that waits for another one in most calls
// counts the wait with every plan.
float Trial::Typical(std::size_t plan) const {
  auto times = us_[plan];
  const auto quartile = times.begin() + kSamples / 4;
  std::ranges::nth_element(times, quartile);
  return *quartile;
}

void Trial::Try() {
  stage_ = Stage::trying;
  calls_ = 0;
  next_exchange_ = kRounds * kInARow * plans_.size();
}

void Trial::Serve(std::size_t plan, double us) {
  stage_ = Stage::serving;
  serving_ = plan;
  typical_us_[plan] = us;
  calls_ = 0;
  next_exchange_ = looks_every_;
  looks_every_ = std::min(2 * looks_every_, kRarestLook);
}

std::string Trial::Conclude(const TrialWords& all) {
  switch (stage_) {
    case Stage::usual: {
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
      for (std::size_t i = 0; i < plans_.size(); ++i) {
        typical_us_[i] = all.us[i];
        text += fmt::format("{}{} {:.1f} us (predicted {:.1f})", i == 0 ? "" : ", ",
                            tuner::ToString(plans_[i].candidate), typical_us_[i], plans_[i].us);
      }
      const auto fastest = static_cast<std::size_t>(
          std::min_element(typical_us_.begin(), typical_us_.begin() + static_cast<std::ptrdiff_t>(plans_.size())) -
          typical_us_.begin());
      const bool changes = typical_us_[fastest] < kWorthChanging * typical_us_[serving_];
      const double regret = typical_us_[serving_] / typical_us_[fastest];
      Serve(changes ? fastest : serving_, typical_us_[changes ? fastest : serving_]);
      return fmt::format("{}: tried {}; {} serves from now on{}", call_, text,
                         builders::NameOf(plans_[serving_].algorithm),
                         changes ? fmt::format(", the one before took {:.2f} times as long", regret) : "");
    }
    case Stage::serving: break;
  }
  const double before = typical_us_[serving_], now = all.us.front();
  if (now < kOtherThanBefore * before && before < kOtherThanBefore * now) {
    Serve(serving_, before);
    return "";
  }
  Try();
  return fmt::format("{} takes {:.1f} us now, and took {:.1f}: its plans are tried again", call_, now, before);
}

void Trial::Took(double us) {
  if (stage_ == Stage::trying) {
    const std::uint64_t run = calls_ / kInARow, in_run = calls_ % kInARow, round = run / plans_.size();
    if (in_run > 0) us_[run % plans_.size()][round * (kInARow - 1) + in_run - 1] = static_cast<float>(us);
  } else {
    us_[0][calls_ % kSamples] = static_cast<float>(us);
  }
  ++calls_;
}

std::string Trial::Reason(std::size_t plan) const {
  if (stage_ == Stage::usual || plans_.size() < 2) return "";
  if (stage_ == Stage::trying) return fmt::format("on trial, predicted {:.1f} us", plans_[plan].us);
  const double usual = typical_us_.front(), own = typical_us_[plan];
  return fmt::format("took {:.1f} us on trial, predicted {:.1f}{}", own, plans_[plan].us,
                     plan == 0 ? ""
                               : fmt::format("; {}, which is cheapest by price, took {:.1f}",
                                             builders::NameOf(plans_.front().algorithm), usual));
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
