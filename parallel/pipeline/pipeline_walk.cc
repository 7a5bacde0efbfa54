#include "parallel/pipeline/pipeline_walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace tutti::parallel {
namespace {

class Walker {
 public:
  Walker(const PipelineSchedule& schedule, const PipelineDurations& durations)
      : schedule_(schedule), durations_(durations), stages_(static_cast<std::size_t>(schedule.stages)) {
    walk_.spans.resize(stages_.size());
    for (int stage = 0; stage < schedule.stages; ++stage) Arrive(stage, 0);
  }

  // The k-th send of a pair can meet only its k-th receive, so the order of the search changes nothing.
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
    std::vector<PipelineExchange> exchanges;  // before the next action; of the first, what is left
    double arrived = 0;                       // at the first one
    double over = 0;                          // when its transfers so far ended

    PipelineExchange* exchange() { return exchanges.empty() ? nullptr : &exchanges.front(); }
  };

  Stage& At(int stage) { return stages_[static_cast<std::size_t>(stage)]; }
  const std::vector<PipelineAction>& ActionsOf(int stage) const {
    return schedule_.actions[static_cast<std::size_t>(stage)];
  }
  std::vector<PipelineSpan>& SpansOf(int stage) { return walk_.spans[static_cast<std::size_t>(stage)]; }

  // `stage` arrives at the exchanges behind everything that it has done.
  void Arrive(int stage, double now) {
    At(stage) = {exchanges_before(schedule_, stage, SpansOf(stage).size()), now, now};
    Leave(stage);
  }
  // Goes on to the next exchange, if the current one is over.
  void Leave(int stage) {
    auto& self = At(stage);
    while (self.exchange() != nullptr && *self.exchange() == PipelineExchange{}) {
      self.exchanges.erase(self.exchanges.begin());
      self.arrived = self.over;
    }
  }

  // Whether a send of `from` meets its receive. Messages of a pair stay in order: the first meets the first.
  bool Deliver(int from) {
    auto* const sender = At(from).exchange();
    if (sender == nullptr) return false;
    for (auto send = sender->sends.begin(); send != sender->sends.end(); ++send) {
      const int to = send->to;
      const auto to_it = [&](const PipelineTransfer& other) { return other.to == to; };
      if (std::find_if(sender->sends.begin(), send, to_it) != send) continue;  // an earlier one waits
      auto* const receiver = At(to).exchange();
      if (receiver == nullptr) continue;
      const auto receive = std::ranges::find(receiver->receives, from, &PipelineTransfer::from);
      if (receive == receiver->receives.end()) continue;
      if (*receive != *send) {
        walk_.problem = fmt::format("stage {} expects {} from stage {}, which sends {}", to, describe(*receive), from,
                                    describe(*send));
        return false;
      }
      const double end = std::max(At(from).arrived, At(to).arrived) + durations_.transfer;
      for (const int stage : {from, to}) At(stage).over = std::max(At(stage).over, end);
      sender->sends.erase(send);
      receiver->receives.erase(receive);
      for (const int stage : {from, to}) Leave(stage);
      return true;
    }
    return false;
  }

  bool Act(int stage) {
    auto& self = At(stage);
    const auto& actions = ActionsOf(stage);
    auto& spans = SpansOf(stage);
    if (self.exchange() != nullptr || spans.size() == actions.size()) return false;
    spans.push_back({self.over, self.over + durations_.of(actions[spans.size()].pass, stage)});
    Arrive(stage, spans.back().end);
    return true;
  }

  void NameWhoWaits() {
    std::string text;
    for (int stage = 0; stage < schedule_.stages; ++stage) {
      const auto* const exchange = At(stage).exchange();
      if (exchange == nullptr) continue;
      for (const auto& send : exchange->sends) {
        text += fmt::format("; stage {} waits to send {} to stage {}", stage, describe(send), send.to);
      }
      for (const auto& receive : exchange->receives) {
        text += fmt::format("; stage {} waits for {} from stage {}", stage, describe(receive), receive.from);
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

PipelineWalk WalkBuffered(const PipelineSchedule& schedule, const PipelineDurations& durations,
                          const EarliestStarts& not_before) {
  PipelineWalk walk;
  walk.spans.resize(static_cast<std::size_t>(schedule.stages));
  std::map<PipelineTransferKey, double> made;
  const auto act = [&](int stage) {
    const auto& actions = schedule.actions[static_cast<std::size_t>(stage)];
    auto& spans = walk.spans[static_cast<std::size_t>(stage)];
    if (spans.size() == actions.size()) return false;
    const auto& action = actions[spans.size()];
    double start = spans.empty() ? 0 : spans.back().end;
    const auto delayed = not_before.find({stage, spans.size()});
    if (delayed != not_before.end()) start = std::max(start, delayed->second);
    if (const auto needed = transfer_for(schedule, stage, action)) {
      const auto there = made.find(KeyOf(*needed));
      if (there == made.end()) return false;
      start = std::max(start, there->second + (IsLocal(*needed) ? 0 : durations.transfer));
    }
    spans.push_back({start, start + durations.of(action.pass, stage)});
    if (const auto makes = transfer_of(schedule, stage, action)) made[KeyOf(*makes)] = spans.back().end;
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (int stage = 0; stage < schedule.stages; ++stage) {
      while (act(stage)) moved = true;
    }
  }
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const auto& actions = schedule.actions[static_cast<std::size_t>(stage)];
    const auto done = walk.spans[static_cast<std::size_t>(stage)].size();
    if (done == actions.size()) continue;
    walk.problem = fmt::format("stage {} waits forever before {}", stage, describe(actions[done]));
    break;
  }
  return walk;
}

}  // namespace tutti::parallel
