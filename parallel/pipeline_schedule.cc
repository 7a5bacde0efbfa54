#include "tutti/parallel/pipeline_schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "tutti/parallel/error.h"

namespace tutti::parallel {
namespace {

using enum PipelinePass;

PipelineSchedule Empty(const char* name, int stages, int microbatches) {
  for (const auto& [what, number] : {std::pair{"stages", stages}, std::pair{"microbatches", microbatches}}) {
    if (number >= 1) continue;
    throw Error(tuttiInvalidArgument,
                fmt::format("a {} schedule of {} {} was asked for; at least 1 is needed", name, number, what));
  }
  return {name, stages, microbatches, std::vector<std::vector<PipelineAction>>(static_cast<std::size_t>(stages))};
}

// What `action` of a stage makes, for the neighbour `to`, if there is one.
std::optional<PipelineTransfer> Transfer(const PipelineSchedule& schedule, const PipelineAction& action, int from,
                                         int to) {
  const auto exists = [&](int stage) { return stage >= 0 && stage < schedule.stages; };
  if (!exists(from) || !exists(to)) return std::nullopt;
  return PipelineTransfer{action, from, to};
}

}  // namespace

PipelineSchedule gpipe(int stages, int microbatches) {
  auto schedule = Empty("GPipe", stages, microbatches);
  for (auto& actions : schedule.actions) {
    for (int k = 0; k < microbatches; ++k) actions.push_back({forward, k});
    for (int k = 0; k < microbatches; ++k) actions.push_back({backward, k});
  }
  return schedule;
}

PipelineSchedule one_forward_one_backward(int stages, int microbatches) {
  auto schedule = Empty("1F1B", stages, microbatches);
  for (int stage = 0; stage < stages; ++stage) {
    auto& actions = schedule.actions[static_cast<std::size_t>(stage)];
    const int ahead = std::min(stages - stage - 1, microbatches);
    for (int k = 0; k < ahead; ++k) actions.push_back({forward, k});
    for (int k = ahead; k < microbatches; ++k) {
      actions.push_back({forward, k});
      actions.push_back({backward, k - ahead});
    }
    for (int k = microbatches - ahead; k < microbatches; ++k) actions.push_back({backward, k});
  }
  return schedule;
}

PipelineSchedule get_schedule(const std::string& name, int stages, int microbatches) {
  if (name == "GPipe") return gpipe(stages, microbatches);
  if (name == "1F1B") return one_forward_one_backward(stages, microbatches);
  throw Error(tuttiInvalidArgument, fmt::format(R"(there is no schedule "{}"; there are "GPipe" and "1F1B")", name));
}

PipelineExchange exchange_before(const PipelineSchedule& schedule, int stage, std::size_t place) {
  const auto& actions = schedule.actions[static_cast<std::size_t>(stage)];
  PipelineExchange exchange;
  if (place > 0) {
    const auto& last = actions[place - 1];
    exchange.send = Transfer(schedule, last, stage, last.pass == forward ? stage + 1 : stage - 1);
  }
  if (place < actions.size()) {
    const auto& next = actions[place];
    exchange.receive = Transfer(schedule, next, next.pass == forward ? stage - 1 : stage + 1, stage);
  }
  return exchange;
}

std::string describe(const PipelineAction& action) {
  return fmt::format("the {} of microbatch {}", action.pass == forward ? "forward" : "backward", action.microbatch);
}

std::string describe(const PipelineTransfer& transfer) {
  return fmt::format("the {} of microbatch {}", transfer.made_by.pass == forward ? "activation" : "gradient",
                     transfer.made_by.microbatch);
}

}  // namespace tutti::parallel
