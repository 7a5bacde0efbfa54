#include "tutti/parallel/pipeline_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "parallel/pipeline/pipeline_making.h"
#include "tutti/parallel/error.h"
#include "tutti/parallel/pipeline_verify.h"

namespace tutti::parallel {

using enum PipelinePass;

PipelineSchedule EmptySchedule(const char* name, int stages, int microbatches, int chunks) {
  for (const auto& [what, number] :
       {std::pair{"stages", stages}, std::pair{"microbatches", microbatches}, std::pair{"model chunks", chunks}}) {
    if (number >= 1) continue;
    throw Error(tuttiInvalidArgument,
                fmt::format("a {} schedule with {} {} was requested; at least 1 is needed", name, number, what));
  }
  return {name, stages, microbatches, std::vector<std::vector<PipelineAction>>(static_cast<std::size_t>(stages)),
          chunks};
}

PipelineSchedule gpipe(int stages, int microbatches) {
  auto schedule = EmptySchedule("GPipe", stages, microbatches);
  for (auto& actions : schedule.actions) {
    for (int k = 0; k < microbatches; ++k) actions.push_back({forward, k});
    for (int k = 0; k < microbatches; ++k) actions.push_back({backward, k});
  }
  return schedule;
}

PipelineSchedule one_forward_one_backward(int stages, int microbatches) {
  auto schedule = EmptySchedule("1F1B", stages, microbatches);
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

PipelineSchedule get_schedule(const std::string& name, int stages, int microbatches, std::optional<int> chunks) {
  if (name == "Interleaved1F1B") return interleaved_one_forward_one_backward(stages, microbatches, chunks.value_or(2));
  for (const auto& [known, make, has] :
       {std::tuple{"GPipe", &gpipe, 1}, std::tuple{"1F1B", &one_forward_one_backward, 1},
        std::tuple{"ZB-H1", &zero_bubble_h1, 1}, std::tuple{"ZB-V", &zero_bubble_v, 2}}) {
    if (name != known) continue;
    if (chunks.value_or(has) == has) return make(stages, microbatches);
    throw Error(tuttiInvalidArgument,
                fmt::format("the schedule \"{}\" has {} model chunk{} a stage, but {} were requested; "
                            "\"Interleaved1F1B\" takes any number",
                            name, has, has == 1 ? "" : "s", *chunks));
  }
  throw Error(tuttiInvalidArgument,
              fmt::format("there is no schedule \"{}\"; known are \"GPipe\", \"1F1B\", \"Interleaved1F1B\", \"ZB-H1\" "
                          "and \"ZB-V\"",
                          name));
}

PipelineSchedule forward_only(const PipelineSchedule& schedule) {
  require_verified(schedule);
  auto forwards = schedule;
  forwards.forward_only = true;
  for (auto& actions : forwards.actions) {
    std::erase_if(actions, [](const PipelineAction& action) { return action.pass != forward; });
  }
  forwards.exchanges = plan_exchanges(forwards);
  return forwards;
}

std::string describe(const PipelineAction& action) {
  constexpr auto name_of = [](PipelinePass pass) {
    switch (pass) {
      case forward: return "forward";
      case backward: return "backward";
      case backward_input: return "backward for the input";
      case backward_weight: return "backward for the weights";
    }
    return "unknown pass";
  };
  return fmt::format("the {} of microbatch {}{}", name_of(action.pass), action.microbatch, InChunk(action));
}

std::string describe(const PipelineTransfer& transfer) {
  return fmt::format("the {} of microbatch {}{}", transfer.made_by.pass == forward ? "activation" : "gradient",
                     transfer.made_by.microbatch, InChunk(transfer.made_by));
}

std::string InChunk(const PipelineAction& action) {
  return action.chunk == 0 ? "" : fmt::format(" in chunk {}", action.chunk);
}

}  // namespace tutti::parallel
