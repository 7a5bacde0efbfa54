// What stages send each other, and when.
#include <algorithm>
#include <map>

#include "parallel/pipeline_walk.h"

namespace tutti::parallel {
namespace {

using enum PipelinePass;

// To or from the chunk that is so many further on.
std::optional<PipelineTransfer> Transfer(const PipelineSchedule& schedule, int stage, const PipelineAction& action,
                                         int maker, int user) {
  if (action.pass == backward_weight) return std::nullopt;
  const int here = action.chunk * schedule.stages + stage, made = here + maker, used = here + user;
  const auto exists = [&](int chunk) { return chunk >= 0 && chunk < schedule.stages * schedule.chunks; };
  if (!exists(made) || !exists(used)) return std::nullopt;
  return PipelineTransfer{{action.pass == forward ? forward : backward, action.microbatch, made / schedule.stages},
                          made % schedule.stages,
                          used % schedule.stages};
}

}  // namespace

std::optional<PipelineTransfer> transfer_of(const PipelineSchedule& schedule, int stage, const PipelineAction& action) {
  return Transfer(schedule, stage, action, 0, action.pass == forward ? 1 : -1);
}

std::optional<PipelineTransfer> transfer_for(const PipelineSchedule& schedule, int stage,
                                             const PipelineAction& action) {
  return Transfer(schedule, stage, action, action.pass == forward ? -1 : 1, 0);
}

std::vector<PipelineExchange> exchanges_before(const PipelineSchedule& schedule, int stage, std::size_t place) {
  if (!schedule.exchanges.empty()) return schedule.exchanges[static_cast<std::size_t>(stage)][place];
  const auto& actions = schedule.actions[static_cast<std::size_t>(stage)];
  PipelineExchange exchange;
  if (place > 0) {
    if (auto send = transfer_of(schedule, stage, actions[place - 1])) exchange.sends.push_back(*send);
  }
  if (place < actions.size()) {
    if (auto receive = transfer_for(schedule, stage, actions[place])) exchange.receives.push_back(*receive);
  }
  if (exchange == PipelineExchange{}) return {};
  return {exchange};
}

namespace {

// Times at which transfers can be, in a timeline whose spans begin and end at whole numbers.
class Plan {
 public:
  Plan(const PipelineSchedule& schedule, PipelineTimeline timeline)
      : schedule_(schedule), timeline_(std::move(timeline)) {
    ForEachAction([&](int stage, const PipelineAction& action, const PipelineSpan& span) {
      if (const auto sent = transfer_of(schedule_, stage, action)) {
        transfers_.push_back(*sent);
        made_[KeyOf(*sent)] = span.end;
      }
      if (const auto received = transfer_for(schedule_, stage, action)) used_[KeyOf(*received)] = span.start;
    });
    std::ranges::sort(transfers_, {}, KeyOf);
  }

  // By stage and place; nothing where a transfer has no time.
  std::vector<std::vector<std::vector<PipelineExchange>>> Exchanges() const {
    // By stage and time: what is at one time is done together. Nobody waits for ever, as all go by the same clock.
    std::vector<std::map<double, PipelineExchange>> at(timeline_.spans.size());
    for (const auto& transfer : transfers_) {
      const auto time = TimeOf(transfer);
      if (!time) return {};
      at[static_cast<std::size_t>(transfer.from)][*time].sends.push_back(transfer);
      at[static_cast<std::size_t>(transfer.to)][*time].receives.push_back(transfer);
    }
    std::vector<std::vector<std::vector<PipelineExchange>>> exchanges;
    for (std::size_t stage = 0; stage < at.size(); ++stage) {
      const auto& spans = timeline_.spans[stage];
      auto& places = exchanges.emplace_back(spans.size() + 1);
      for (auto& [time, exchange] : at[stage]) {
        const auto next = std::ranges::lower_bound(spans, time, {}, &PipelineSpan::start);
        places[static_cast<std::size_t>(next - spans.begin())].push_back(exchange);
      }
    }
    return exchanges;
  }

 private:
  template <typename Visit>
  void ForEachAction(const Visit& visit) const {
    for (int stage = 0; stage < schedule_.stages; ++stage) {
      const auto& actions = schedule_.actions[static_cast<std::size_t>(stage)];
      for (std::size_t place = 0; place < actions.size(); ++place) {
        visit(stage, actions[place], timeline_.spans[static_cast<std::size_t>(stage)][place]);
      }
    }
  }

  // The latest one between being made and being used.
  std::optional<double> TimeOf(const PipelineTransfer& transfer) const {
    const auto used = used_.find(KeyOf(transfer));
    if (used == used_.end()) return std::nullopt;
    for (double time = used->second; time >= made_.at(KeyOf(transfer)); --time) {
      if (!Computes(transfer.from, time) && !Computes(transfer.to, time)) return time;
    }
    return std::nullopt;
  }
  bool Computes(int stage, double time) const {
    const auto& spans = timeline_.spans[static_cast<std::size_t>(stage)];
    const auto next = std::ranges::lower_bound(spans, time, {}, &PipelineSpan::start);
    return next != spans.begin() && std::prev(next)->end > time;
  }

  const PipelineSchedule& schedule_;
  PipelineTimeline timeline_;
  std::vector<PipelineTransfer> transfers_;
  std::map<PipelineTransferKey, double> made_, used_;
};

}  // namespace

std::vector<std::vector<std::vector<PipelineExchange>>> plan_exchanges(const PipelineSchedule& schedule) {
  for (const double backward : {2, 1}) {
    auto walk = WalkBuffered(schedule, PipelineDurations::uniform(schedule.stages, 1, backward));
    if (!walk.problem.empty()) return {};
    auto exchanges = Plan(schedule, {std::move(walk.spans)}).Exchanges();
    if (!exchanges.empty()) return exchanges;
  }
  return {};
}

}  // namespace tutti::parallel
