#include "parallel/pipeline_walk.h"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::parallel {
namespace {

class Walker {
 public:
  Walker(const PipelineSchedule& schedule, const PipelineDurations& durations)
      : schedule_(schedule), durations_(durations), stages_(static_cast<std::size_t>(schedule.stages)) {
    walk_.spans.resize(stages_.size());
    for (int stage = 0; stage < schedule.stages; ++stage) Arrive(stage, 0);
  }

  // The k-th send of a pair can meet its k-th receive only, so the order of looking changes nothing.
  PipelineWalk Play() {
    for (bool moved = true; moved && walk_.problem.empty();) {
      moved = false;
      for (int stage = 0; stage < schedule_.stages; ++stage) {
        while (walk_.problem.empty() && (Deliver(stage) || Act(stage))) moved = true;
      }
    }
    if (walk_.problem.empty()) NameWhoWaits();
    return std::move(walk_);
  }

 private:
  struct Stage {
    PipelineExchange exchange;  // what of the current one is still to be done
    double arrived = 0;         // there
    double over = 0;            // when what is done of it was
  };

  Stage& At(int stage) { return stages_[static_cast<std::size_t>(stage)]; }
  const std::vector<PipelineAction>& ActionsOf(int stage) const {
    return schedule_.actions[static_cast<std::size_t>(stage)];
  }
  std::vector<PipelineSpan>& SpansOf(int stage) { return walk_.spans[static_cast<std::size_t>(stage)]; }

  // `stage` comes to the exchange behind all that it has done.
  void Arrive(int stage, double now) {
    At(stage) = {exchange_before(schedule_, stage, SpansOf(stage).size()), now, now};
  }

  bool Deliver(int from) {
    auto& sender = At(from);
    if (!sender.exchange.send) return false;
    auto& receiver = At(sender.exchange.send->to);
    if (!receiver.exchange.receive || receiver.exchange.receive->from != from) return false;
    if (*receiver.exchange.receive != *sender.exchange.send) {
      walk_.problem = fmt::format("stage {} expects {} from stage {}, which sends {}", sender.exchange.send->to,
                                  describe(*receiver.exchange.receive), from, describe(*sender.exchange.send));
      return false;
    }
    const double end = std::max(sender.arrived, receiver.arrived) + durations_.transfer;
    sender.over = std::max(sender.over, end);
    receiver.over = std::max(receiver.over, end);
    sender.exchange.send.reset();
    receiver.exchange.receive.reset();
    return true;
  }

  bool Act(int stage) {
    const auto& self = At(stage);
    const auto& actions = ActionsOf(stage);
    auto& spans = SpansOf(stage);
    if (self.exchange.send || self.exchange.receive || spans.size() == actions.size()) return false;
    const auto& of_pass =
        actions[spans.size()].pass == PipelinePass::forward ? durations_.forward : durations_.backward;
    spans.push_back({self.over, self.over + of_pass[static_cast<std::size_t>(stage)]});
    Arrive(stage, spans.back().end);
    return true;
  }

  void NameWhoWaits() {
    std::string text;
    for (int stage = 0; stage < schedule_.stages; ++stage) {
      const auto& exchange = At(stage).exchange;
      if (exchange.send) {
        text +=
            fmt::format("; stage {} waits to send {} to stage {}", stage, describe(*exchange.send), exchange.send->to);
      }
      if (exchange.receive) {
        text += fmt::format("; stage {} waits for {} from stage {}", stage, describe(*exchange.receive),
                            exchange.receive->from);
      }
    }
    if (!text.empty()) walk_.problem = "deadlock: " + text.substr(2);
  }

  const PipelineSchedule& schedule_;
  const PipelineDurations& durations_;
  std::vector<Stage> stages_;
  PipelineWalk walk_;
};

}  // namespace

PipelineWalk Walk(const PipelineSchedule& schedule, const PipelineDurations& durations) {
  return Walker(schedule, durations).Play();
}

}  // namespace tutti::parallel
