// Which of the pipeline's buffers a stage has in use when: what is counted before a batch and done in it.
#pragma once

#include <compare>
#include <map>
#include <utility>
#include <vector>

#include "tutti/parallel/pipeline_schedule.h"

namespace tutti::parallel {

enum class PipelineBuffer { output, grad_output, grad_input, input };

struct BufferUse {
  PipelineBuffer buffer = PipelineBuffer::input;
  int chunk = 0;
  int microbatch = 0;
  auto operator<=>(const BufferUse&) const = default;
};

// In use while `transfer` is sent, and after it was received.
BufferUse sent_from(const PipelineTransfer& transfer);
BufferUse received_in(const PipelineSchedule& schedule, const PipelineTransfer& transfer);
// What `action` of `stage` is the last to read.
std::vector<BufferUse> last_read_by(const PipelineSchedule& schedule, int stage, const PipelineAction& action);

// The most buffers of each kind and chunk that `stage` has in use at once. REQUIRES: `schedule` is verified.
std::map<std::pair<PipelineBuffer, int>, int> most_in_use(const PipelineSchedule& schedule, int stage);

}  // namespace tutti::parallel
