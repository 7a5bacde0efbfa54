// One pass over a plan of one lane whose steps run once each, in slots that carry their data (Plan::one_pass). Most
// small messages are such passes, so every instruction and every page of memory counts here
// (docs/notebook/performance/small_call.md).
//
// Thread-safety: as Run.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "executors/host/doorbell.h"
#include "executors/host/kernels/copy.h"
#include "executors/host/outcome.h"
#include "executors/host/plan.h"

namespace tutti::host {

class Pass {
 public:
  // REQUIRES: plan.one_pass(). Both outlive the pass.
  Pass(const Plan& plan, shm::Fabric& fabric);

  // REQUIRES: not running. The buffers are dense, and no contribution is scaled.
  void Start(const std::byte* input, std::byte* output, std::uint32_t tag) {
    // Inputs are only read, so the pointer is never written through.
    memory_ = {const_cast<std::byte*>(input), output, scratch_.data()};
    tag_ = tag;
    at_ = steps_.data();
    // An earlier call may have failed halfway.
    blocked_on_ = nullptr;
    ready_reads_ = 0;
    fault_.kind = Fault::Kind::none;
  }
  // As Run::Advance.
  Progress Advance();

  std::uint32_t tag() const { return tag_; }
  const Fault& fault() const { return fault_; }
  std::size_t position() const { return static_cast<std::size_t>(at_ - steps_.data()); }  // the next step
  // Over all passes so far.
  Traffic traffic() const;

 private:
  // Null: the slot's content is none that an honest rank sends.
  const std::byte* Taken(const BoundOperand& slot, std::size_t bytes) {
    const auto content = slot.empty->Content();
    if (content.bytes == bytes && content.kind == ring::SlotKind::value) [[likely]]
      return slot.empty->Data();
    Refuse(slot, bytes, content);
    return nullptr;
  }
  std::byte* Memory(const BoundOperand& operand) const {
    return memory_[static_cast<std::size_t>(operand.kind)] + operand.offset;
  }
  void Publish(ring::FillEnd& fill, std::size_t bytes) {
    auto& header = fill.Header();
    header.bytes = static_cast<std::uint32_t>(bytes);
    header.kind = ring::SlotKind::value;
    fill.Publish(tag_);
  }
  // Whether all slots that the step reads have come, and all that it fills are free. Done: they have and are.
  Progress Ready(const BoundStep& step);
  // These return whether all slots that they read were honest.
  bool Copy(const BoundStep& step);
  bool Reduce(const BoundStep& step);
  void Refuse(const BoundOperand& slot, std::size_t bytes, const ring::SlotContent& content);
  bool NetworkHasAll() const;

  const std::vector<BoundStep>& steps_;
  const BoundStep* at_ = nullptr;  // the next step
  // The operand that blocked the pass: until its slot comes, a poll looks at nothing else. Null: something else did.
  const ring::EmptyEnd* blocked_on_ = nullptr;
  std::size_t ready_reads_ = 0;         // leading operands of the next step that were seen to be ready
  std::array<std::byte*, 3> memory_{};  // input, output, scratch: by OperandKind
  std::uint32_t tag_ = 0;
  const bool crosses_hosts_;
  const std::atomic<std::uint32_t>& sleepers_;
  std::uint64_t passes_ = 0;  // whose last step is done
  const Plan& plan_;
  shm::Fabric& fabric_;
  Fault fault_;
  std::vector<std::byte> scratch_;
};

}  // namespace tutti::host
