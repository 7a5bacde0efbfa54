// The buffers of the pipeline that a stage has in use at each time: counted before a batch, and taken during it.
#pragma once

#include <compare>
#include <cstddef>
#include <functional>
#include <map>
#include <vector>

#include "tutti/parallel/pipeline_schedule.h"

namespace tutti::parallel {

enum class PipelineBuffer { input, output, grad_output, grad_input };

struct BufferUse {
  PipelineBuffer buffer = PipelineBuffer::input;
  int chunk = 0;
  int microbatch = 0;
  auto operator<=>(const BufferUse&) const = default;
};

// The buffers in use while `transfer` is sent, and after it was received.
BufferUse sent_from(const PipelineTransfer& transfer);
BufferUse received_in(const PipelineSchedule& schedule, const PipelineTransfer& transfer);
// The buffers that `action` of `stage` is the last to read.
std::vector<BufferUse> last_read_by(const PipelineSchedule& schedule, int stage, const PipelineAction& action);

// The most buffers of each size that `stage` has in use at once, the largest first. `bytes_of`: the size of a buffer.
// REQUIRES: `schedule` is verified.
using BuffersBySize = std::map<std::size_t, std::size_t, std::greater<>>;
BuffersBySize most_in_use(const PipelineSchedule& schedule, int stage,
                          const std::function<std::size_t(const BufferUse&)>& bytes_of);

}  // namespace tutti::parallel
