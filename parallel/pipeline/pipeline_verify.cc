#include "tutti/parallel/pipeline_verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "parallel/pipeline/pipeline_walk.h"
#include "tutti/parallel/error.h"

namespace tutti::parallel {
namespace {

using enum PipelinePass;

std::string WrongSizes(const PipelineSchedule& schedule) {
  if (schedule.stages < 1) return fmt::format("it has {} stages; at least 1 is needed", schedule.stages);
  if (schedule.microbatches < 1) {
    return fmt::format("it has {} microbatches; at least 1 is needed", schedule.microbatches);
  }
  if (std::ssize(schedule.actions) != schedule.stages) {
    return fmt::format("it has actions for {} stages, but {} stages are declared", schedule.actions.size(),
                       schedule.stages);
  }
  if (schedule.chunks < 1) return fmt::format("it has {} chunks per stage; at least 1 is needed", schedule.chunks);
  if (schedule.exchanges.empty()) return "";
  if (std::ssize(schedule.exchanges) != schedule.stages) {
    return fmt::format("it has exchanges for {} stages, but {} stages are declared", schedule.exchanges.size(),
                       schedule.stages);
  }
  for (std::size_t stage = 0; stage < schedule.exchanges.size(); ++stage) {
    const auto places = schedule.exchanges[stage].size(), needed = schedule.actions[stage].size() + 1;
    if (places == needed) continue;
    return fmt::format(
        "stage {} has {} places for exchanges, but {} actions: it needs one before each action and one after the last",
        stage, places, needed - 1);
  }
  return "";
}

// Checks the actions of one stage alone.
class ActionCheck {
 public:
  ActionCheck(const PipelineSchedule& schedule, int stage)
      : schedule_(schedule),
        stage_(stage),
        done_(static_cast<std::size_t>(schedule.chunks),
              std::vector<Done>(static_cast<std::size_t>(schedule.microbatches))) {}

  int most_held() const { return most_held_; }

  std::string Problem() {
    for (const auto& action : schedule_.actions[static_cast<std::size_t>(stage_)]) {
      if (auto problem = Next(action); !problem.empty()) return problem;
    }
    for (int chunk = 0; chunk < schedule_.chunks; ++chunk) {
      for (int k = 0; k < schedule_.microbatches; ++k) {
        const auto& done = At({forward, k, chunk});
        if (done.forward && (schedule_.forward_only || (done.input && done.weight))) continue;
        const auto pass = !done.forward ? forward : !done.input ? backward : backward_weight;
        return fmt::format("stage {} never does {}", stage_, describe(PipelineAction{pass, k, chunk}));
      }
    }
    return "";
  }

 private:
  // The state of one microbatch in one chunk. A whole backward is both of its parts.
  struct Done {
    bool forward = false, input = false, weight = false;
  };
  Done& At(const PipelineAction& action) {
    return done_[static_cast<std::size_t>(action.chunk)][static_cast<std::size_t>(action.microbatch)];
  }

  std::string Next(const PipelineAction& action) {
    for (const auto& [what, number, count] : {std::tuple{"microbatches", action.microbatch, schedule_.microbatches},
                                              std::tuple{"chunks", action.chunk, schedule_.chunks}}) {
      if (number >= 0 && number < count) continue;
      return fmt::format("stage {} does {}, but the {} are 0 .. {}", stage_, describe(action), what, count - 1);
    }
    if (schedule_.forward_only && action.pass != forward) {
      return fmt::format("stage {} does {}, but the schedule has forwards only", stage_, describe(action));
    }
    auto& done = At(action);
    const bool is_forward = action.pass == forward, is_weight = action.pass == backward_weight;
    if (is_forward ? done.forward : is_weight ? done.weight : done.input) {
      return fmt::format("stage {} does {} twice", stage_, describe(action));
    }
    if (!is_forward && !done.forward) {
      return fmt::format("stage {} does {} before its forward", stage_, describe(action));
    }
    if (is_weight && !done.input) {
      return fmt::format("stage {} does {} before the backward for the input", stage_, describe(action));
    }
    if (is_forward) done.forward = true;
    if (action.pass == backward || action.pass == backward_input) done.input = true;
    if (action.pass == backward || is_weight) done.weight = true;
    if (is_forward) most_held_ = std::max(most_held_, ++held_);
    if (done.weight || schedule_.forward_only) --held_;
    return "";
  }

  const PipelineSchedule& schedule_;
  int stage_;
  std::vector<std::vector<Done>> done_;  // by chunk and microbatch
  int held_ = 0;
  int most_held_ = 0;
};

// Checks the sends and receives of one stage alone, where the schedule gives them.
class TransferCheck {
 public:
  TransferCheck(const PipelineSchedule& schedule, int stage) : schedule_(schedule), stage_(stage) {}

  std::string Problem() {
    const auto& actions = schedule_.actions[static_cast<std::size_t>(stage_)];
    for (std::size_t place = 0; place <= actions.size(); ++place) {
      for (const auto& exchange : exchanges_before(schedule_, stage_, place)) Exchange(exchange);
      if (!problem_.empty() || place == actions.size()) break;
      const auto needed = transfer_for(schedule_, stage_, actions[place]);
      if (needed && there_.erase(KeyOf(*needed)) == 0) {
        return fmt::format("stage {} does {} before it receives {}", stage_, describe(actions[place]),
                           describe(*needed));
      }
      if (const auto made = transfer_of(schedule_, stage_, actions[place])) {
        (IsLocal(*made) ? there_ : made_).insert(KeyOf(*made));
      }
    }
    if (!problem_.empty()) return problem_;
    if (!made_.empty())
      return fmt::format("stage {} never sends {} of the tensors that it makes", stage_, made_.size());
    if (!there_.empty()) return fmt::format("stage {} receives {} tensors that it never uses", stage_, there_.size());
    return "";
  }

 private:
  void Exchange(const PipelineExchange& exchange) {
    for (const auto& send : exchange.sends) {
      if (send.from == stage_ && made_.erase(KeyOf(send)) == 1) continue;
      problem_ = fmt::format("stage {} sends {}, which it has not just made", stage_, describe(send));
    }
    for (const auto& receive : exchange.receives) {
      if (receive.to == stage_ && there_.insert(KeyOf(receive)).second) continue;
      problem_ = fmt::format("stage {} receives {}, which is not meant for it or was already received", stage_,
                             describe(receive));
    }
  }

  const PipelineSchedule& schedule_;
  int stage_;
  std::set<PipelineTransferKey> made_;   // but not sent
  std::set<PipelineTransferKey> there_;  // but not used
  std::string problem_;
};

}  // namespace

PipelineVerdict pipeline_verify(const PipelineSchedule& schedule) {
  PipelineVerdict verdict;
  verdict.problem = WrongSizes(schedule);
  if (!verdict.problem.empty()) return verdict;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    ActionCheck actions(schedule, stage);
    verdict.problem = actions.Problem();
    if (verdict.problem.empty()) verdict.problem = TransferCheck(schedule, stage).Problem();
    if (!verdict.problem.empty()) return verdict;
    verdict.activations.push_back(actions.most_held());
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
