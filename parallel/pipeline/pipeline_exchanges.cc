// The transfers between stages, and their times.
#include <algorithm>
#include <map>

#include "parallel/pipeline/pipeline_walk.h"

namespace tutti::parallel {
namespace {

using enum PipelinePass;

// Whether a microbatch goes through the stages' chunks of this number from the last stage to the first.
bool GoesBack(const PipelineSchedule& schedule, int chunk) {
  return schedule.placement == PipelinePlacement::v && chunk % 2 == 1;
}

// The transfer from the chunk that is `maker` further on to the one that is `user` further on.
std::optional<PipelineTransfer> Transfer(const PipelineSchedule& schedule, int stage, const PipelineAction& action,
                                         int maker, int user) {
  if (action.pass == backward_weight) return std::nullopt;
  const int here = chunk_number(schedule, stage, action.chunk), made = here + maker, used = here + user;
  const auto exists = [&](int chunk) { return chunk >= 0 && chunk < schedule.stages * schedule.chunks; };
  if (!exists(made) || !exists(used)) return std::nullopt;
  const auto from = chunk_at(schedule, made), to = chunk_at(schedule, used);
  return PipelineTransfer{
      {action.pass == forward ? forward : backward, action.microbatch, from.chunk}, from.stage, to.stage};
}

}  // namespace

int chunk_number(const PipelineSchedule& schedule, int stage, int chunk) {
  return chunk * schedule.stages + (GoesBack(schedule, chunk) ? schedule.stages - 1 - stage : stage);
}

PipelineChunk chunk_at(const PipelineSchedule& schedule, int number) {
  const int chunk = number / schedule.stages, place = number % schedule.stages;
  return {GoesBack(schedule, chunk) ? schedule.stages - 1 - place : place, chunk};
}

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
    const auto send = transfer_of(schedule, stage, actions[place - 1]);
    if (send && !IsLocal(*send)) exchange.sends.push_back(*send);
  }
  if (place < actions.size()) {
    const auto receive = transfer_for(schedule, stage, actions[place]);
    if (receive && !IsLocal(*receive)) exchange.receives.push_back(*receive);
  }
  if (exchange == PipelineExchange{}) return {};
  return {exchange};
}

namespace {

using Spans = std::vector<std::vector<PipelineSpan>>;
using Exchanges = std::vector<std::vector<std::vector<PipelineExchange>>>;

// The place of an action.
struct Place {
  int stage;
  std::size_t place;
};
struct Way {
  PipelineTransfer transfer;
  Place maker, user;
};

std::vector<Way> WaysOf(const PipelineSchedule& schedule) {
  std::map<PipelineTransferKey, Way> ways;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const auto& actions = schedule.actions[static_cast<std::size_t>(stage)];
    for (std::size_t place = 0; place < actions.size(); ++place) {
      if (const auto made = transfer_of(schedule, stage, actions[place])) {
        auto& way = ways[KeyOf(*made)];
        way.transfer = *made;
        way.maker = {stage, place};
      }
      if (const auto used = transfer_for(schedule, stage, actions[place])) ways[KeyOf(*used)].user = {stage, place};
    }
  }
  std::vector<Way> all;
  for (const auto& [key, way] : ways) {
    if (!IsLocal(way.transfer)) all.push_back(way);
  }
  return all;
}

const PipelineSpan& At(const Spans& spans, const Place& place) {
  return spans[static_cast<std::size_t>(place.stage)][place.place];
}

// The place of the first action that starts at `time` or later.
std::size_t Next(const Spans& spans, int stage, double time) {
  const auto& mine = spans[static_cast<std::size_t>(stage)];
  return static_cast<std::size_t>(std::ranges::lower_bound(mine, time, {}, &PipelineSpan::start) - mine.begin());
}

bool Computes(const Spans& spans, int stage, double time) {
  const std::size_t next = Next(spans, stage, time);
  return next > 0 && At(spans, {stage, next - 1}).end > time;
}

// The latest time between being made and being used at which neither side computes. All actions start and end at whole
// numbers.
std::optional<double> TimeOf(const Spans& spans, const Way& way) {
  const double made = At(spans, way.maker).end;
  for (double time = At(spans, way.user).start; time >= made; --time) {
    if (!Computes(spans, way.maker.stage, time) && !Computes(spans, way.user.stage, time)) return time;
  }
  return std::nullopt;
}

// The times of all actions, such that every transfer has a time. Actions are as early as they can be, but for a few
// that wait for a transfer: those that cost least. Empty if no such times are found.
Spans MeetingTimes(const PipelineSchedule& schedule, const std::vector<Way>& ways) {
  const auto durations = PipelineDurations::uniform(schedule.stages, 1, 2);
  EarliestStarts delays;
  for (std::size_t tries = 0; tries <= ways.size(); ++tries) {
    const auto walk = WalkBuffered(schedule, durations, delays);
    if (!walk.problem.empty()) return {};
    const auto& spans = walk.spans;
    const Way* missed = nullptr;
    for (const auto& way : ways) {
      const bool is_earlier = missed == nullptr || At(spans, way.user).start < At(spans, missed->user).start;
      if (is_earlier && !TimeOf(spans, way)) missed = &way;
    }
    if (missed == nullptr) return spans;
    // Its maker computes when its user needs it, so one of the two waits.
    const double wanted = At(spans, missed->user).start;
    const Place busy{missed->maker.stage, Next(spans, missed->maker.stage, wanted) - 1};
    auto maker_waits = delays, user_waits = delays;
    maker_waits[{busy.stage, busy.place}] = wanted;
    user_waits[{missed->user.stage, missed->user.place}] = At(spans, busy).end;
    const auto cost = [&](const EarliestStarts& starts, double wait) {
      return std::pair(PipelineTimeline{WalkBuffered(schedule, durations, starts).spans}.makespan(), wait);
    };
    const bool is_maker =
        cost(maker_waits, wanted - At(spans, busy).start) < cost(user_waits, At(spans, busy).end - wanted);
    delays = is_maker ? std::move(maker_waits) : std::move(user_waits);
  }
  return {};
}

}  // namespace

Exchanges plan_exchanges(const PipelineSchedule& schedule) {
  const auto ways = WaysOf(schedule);
  const auto spans = MeetingTimes(schedule, ways);
  if (spans.empty()) return {};
  // By stage and time: transfers at one time are done together. No stage waits forever, as all go by the same clock.
  std::vector<std::map<double, PipelineExchange>> at(spans.size());
  for (const auto& way : ways) {
    const double time = *TimeOf(spans, way);
    at[static_cast<std::size_t>(way.maker.stage)][time].sends.push_back(way.transfer);
    at[static_cast<std::size_t>(way.user.stage)][time].receives.push_back(way.transfer);
  }
  Exchanges exchanges;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    auto& places = exchanges.emplace_back(spans[static_cast<std::size_t>(stage)].size() + 1);
    for (auto& [time, exchange] : at[static_cast<std::size_t>(stage)]) {
      places[Next(spans, stage, time)].push_back(exchange);
    }
  }
  return exchanges;
}

}  // namespace tutti::parallel
