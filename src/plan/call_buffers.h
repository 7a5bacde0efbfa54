// A call's buffers as the executor of either side gets them.
//
// Thread-safety: pure functions.
#pragma once

#include <optional>

#include "algorithms/schedule/protocol_config.h"
#include "executors/host/run.h"
#include "src/plan/operation.h"
#include "src/plan/planning.h"

namespace tutti::plan {

struct Buffers {
  const std::byte* input;
  std::byte* output;
};
// `of_barrier`: the communicator's, which a barrier uses.
inline Buffers BuffersOf(const Operation& operation, const Buffers& of_barrier) {
  if (operation.collective == schedule::Collective::barrier) return of_barrier;
  return {static_cast<const std::byte*>(operation.input), static_cast<std::byte*>(operation.output)};
}

// How peers reach both instead of getting copies.
struct BufferAccess {
  host::RemoteAccess input, output;
};
// Nothing if the plan's slots must carry the data. `plan`: a host::Plan or a cuda::DeviceProgram. `reach(buffer, bytes)`:
// how peers reach a contiguous buffer; they reach no other.
template <typename Plan, typename Reach>
std::optional<BufferAccess> AccessTo(const Buffers& buffers, const UsedBytes& used, const Operation& operation,
                                     const Plan& plan, Reach&& reach) {
  const auto& schedule = plan.schedule();
  const bool may_refer = operation.in_place ? schedule.reference_safe_in_place : schedule.reference_safe;
  if (plan.config().protocol != ring::Protocol::bulk || !may_refer) return std::nullopt;
  const auto* const tensors = operation.tensors.get();
  BufferAccess access;
  if (tensors == nullptr || tensors->input.dense()) access.input = reach(buffers.input, used.input);
  if (tensors == nullptr || tensors->output.dense()) access.output = reach(buffers.output, used.output);
  return access;
}

}  // namespace tutti::plan
