#include "tutti/parallel/pipeline_verify.h"

#include <fmt/format.h>

#include <algorithm>

#include "parallel/pipeline_walk.h"
#include "tutti/parallel/error.h"

namespace tutti::parallel {
namespace {

std::string WrongSizes(const PipelineSchedule& schedule) {
  if (schedule.stages < 1) return fmt::format("it has {} stages; at least 1 is needed", schedule.stages);
  if (schedule.microbatches < 1) {
    return fmt::format("it has {} microbatches; at least 1 is needed", schedule.microbatches);
  }
  if (std::ssize(schedule.actions) != schedule.stages) {
    return fmt::format("it has actions of {} stages, but {} stages", schedule.actions.size(), schedule.stages);
  }
  return "";
}

// What one stage does, looked at alone.
class StageCheck {
 public:
  StageCheck(int stage, int microbatches)
      : stage_(stage),
        microbatches_(microbatches),
        forward_(static_cast<std::size_t>(microbatches)),
        backward_(static_cast<std::size_t>(microbatches)) {}

  int most_held() const { return most_held_; }

  std::string Problem(const std::vector<PipelineAction>& actions) {
    for (const auto& action : actions) {
      if (auto problem = Next(action); !problem.empty()) return problem;
    }
    for (int k = 0; k < microbatches_; ++k) {
      const auto place = static_cast<std::size_t>(k);
      if (forward_[place] && backward_[place]) continue;
      const auto pass = forward_[place] ? PipelinePass::backward : PipelinePass::forward;
      return fmt::format("stage {} never does {}", stage_, describe(PipelineAction{pass, k}));
    }
    return "";
  }

 private:
  std::string Next(const PipelineAction& action) {
    if (action.microbatch < 0 || action.microbatch >= microbatches_) {
      return fmt::format("stage {} does {}, but the microbatches are 0 .. {}", stage_, describe(action),
                         microbatches_ - 1);
    }
    const auto place = static_cast<std::size_t>(action.microbatch);
    const bool is_forward = action.pass == PipelinePass::forward;
    auto& done = is_forward ? forward_ : backward_;
    if (done[place]) return fmt::format("stage {} does {} twice", stage_, describe(action));
    done[place] = true;
    if (!is_forward && !forward_[place]) {
      return fmt::format("stage {} does {} before its forward", stage_, describe(action));
    }
    held_ += is_forward ? 1 : -1;
    most_held_ = std::max(most_held_, held_);
    return "";
  }

  int stage_;
  int microbatches_;
  std::vector<bool> forward_;  // those done, by microbatch
  std::vector<bool> backward_;
  int held_ = 0;
  int most_held_ = 0;
};

}  // namespace

PipelineVerdict pipeline_verify(const PipelineSchedule& schedule) {
  PipelineVerdict verdict;
  verdict.problem = WrongSizes(schedule);
  if (!verdict.problem.empty()) return verdict;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    StageCheck check(stage, schedule.microbatches);
    verdict.problem = check.Problem(schedule.actions[static_cast<std::size_t>(stage)]);
    if (!verdict.problem.empty()) return verdict;
    verdict.activations.push_back(check.most_held());
  }
  verdict.problem = Walk(schedule, PipelineDurations::uniform(schedule.stages, 1, 1)).problem;
  return verdict;
}

PipelineVerdict require_verified(const PipelineSchedule& schedule) {
  auto verdict = pipeline_verify(schedule);
  if (verdict.problem.empty()) return verdict;
  throw Error(tuttiInvalidArgument,
              fmt::format("the schedule \"{}\" cannot be run: {}", schedule.name, verdict.problem));
}

}  // namespace tutti::parallel
