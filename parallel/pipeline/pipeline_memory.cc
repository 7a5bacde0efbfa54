#include "parallel/pipeline/pipeline_memory.h"

#include <algorithm>

#include "parallel/pipeline/pipeline_walk.h"

namespace tutti::parallel {

using enum PipelinePass;

BufferUse sent_from(const PipelineTransfer& transfer) {
  const auto& [pass, microbatch, chunk] = transfer.made_by;
  return {pass == forward ? PipelineBuffer::output : PipelineBuffer::grad_input, chunk, microbatch};
}

BufferUse received_in(const PipelineSchedule& schedule, const PipelineTransfer& transfer) {
  const auto& [pass, microbatch, chunk] = transfer.made_by;
  const int used = chunk_number(schedule, transfer.from, chunk) + (pass == forward ? 1 : -1);
  return {pass == forward ? PipelineBuffer::input : PipelineBuffer::grad_output, chunk_at(schedule, used).chunk,
          microbatch};
}

std::vector<BufferUse> last_read_by(const PipelineSchedule& schedule, int stage, const PipelineAction& action) {
  std::vector<BufferUse> uses;
  if ((action.pass == forward && !schedule.forward_only) || action.pass == backward_input) return uses;
  for (const auto pass : {forward, backward}) {
    if (schedule.forward_only && pass == backward) break;
    if (const auto needed = transfer_for(schedule, stage, {pass, action.microbatch, action.chunk})) {
      uses.push_back(received_in(schedule, *needed));
    }
  }
  return uses;
}

BuffersBySize most_in_use(const PipelineSchedule& schedule, int stage,
                          const std::function<std::size_t(const BufferUse&)>& bytes_of) {
  BuffersBySize now, most;
  const auto take = [&](const BufferUse& use) {
    const std::size_t bytes = bytes_of(use);
    most[bytes] = std::max(most[bytes], ++now[bytes]);
  };
  const auto release = [&](const BufferUse& use) { --now[bytes_of(use)]; };
  const auto& actions = schedule.actions[static_cast<std::size_t>(stage)];
  for (std::size_t place = 0; place <= actions.size(); ++place) {
    for (const auto& exchange : exchanges_before(schedule, stage, place)) {
      for (const auto& received : exchange.receives) take(received_in(schedule, received));
      for (const auto& sent : exchange.sends) release(sent_from(sent));
    }
    if (place == actions.size()) break;
    if (const auto made = transfer_of(schedule, stage, actions[place])) {
      take(sent_from(*made));
      if (IsLocal(*made)) release(sent_from(*made)), take(received_in(schedule, *made));
    }
    std::ranges::for_each(last_read_by(schedule, stage, actions[place]), release);
  }
  return most;
}

}  // namespace tutti::parallel
