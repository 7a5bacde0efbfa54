// A communicator's latest calls, in the form in which their repetition is recognised. Loops repeat a few calls; a
// repetition needs none of the checks that depend on the call alone.
//
// Thread-safety: as Operations.
#pragma once

#include <array>
#include <cstdint>

#include "base/numbers/datatype.h"
#include "src/plan/operation.h"
#include "src/plan/plan_cache.h"

namespace tutti::host_side {

// A call that was checked and has begun by a plan of one pass. Such a plan's slots carry their data, so the addresses
// of the buffers are all that may change.
class RepeatedCall {
 public:
  bool IsBy(const plan::BoundPlan& plan) const { return plan_ == &plan; }
  void Keep(const plan::Operation& operation, plan::BoundPlan& plan, std::uint64_t packed) {
    operation_ = operation;
    ForgetSite();
    packed_ = packed;
    plan_ = &plan;
    distance_ = Address(operation.input) - Address(operation.output);
  }
  void Forget() { plan_ = nullptr; }

  // The buffers must be aligned, and apart from each other, or in place at the same distance as before. If this is
  // false, the call may still be valid.
  bool Matches(const plan::PlainCall& call) const {
    return plan_ != nullptr && call.count == operation_.count && call.collective == operation_.collective &&
           call.type == operation_.type && call.op == operation_.op && call.root == operation_.root &&
           FitsBuffers(Address(call.input), Address(call.output));
  }

  // REQUIRES: Matches(call). The result is good until the next change.
  const plan::Operation& With(const plan::PlainCall& call) {
    operation_.input = call.input;
    operation_.output = call.output;
    return operation_;
  }
  plan::BoundPlan& plan() const { return *plan_; }
  std::uint64_t packed() const { return packed_; }  // PackCall

  // Where it was called last: CurrentSite(), 0 if that is unknown; and what the record says (PackOrigin).
  std::uint64_t site() const { return site_; }
  std::uint64_t origin() const { return origin_; }
  void CalledAt(std::uint64_t site, std::uint64_t origin) {
    site_ = site;
    origin_ = origin;
  }
  void ForgetSite() { site_ = 0; }

 private:
  static std::uintptr_t Address(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

  bool FitsBuffers(std::uintptr_t input, std::uintptr_t output) const {
    if (((input | output) & (SizeOf(operation_.type) - 1)) != 0 || input == 0 || output == 0) return false;
    const auto input_end = input + plan_->used.input, output_end = output + plan_->used.output;
    if (input_end < input || output_end < output) return false;  // past the end of memory
    if (operation_.in_place) return input - output == distance_;
    return input_end <= output || output_end <= input;
  }

  plan::Operation operation_;
  std::uint64_t packed_ = 0;
  std::uint64_t site_ = 0, origin_ = 0;
  plan::BoundPlan* plan_ = nullptr;  // null: nothing is kept
  std::uintptr_t distance_ = 0;      // from output to input
};

class RepeatedCalls {
 public:
  // The kept call that this one repeats; null: none.
  RepeatedCall* Find(const plan::PlainCall& call) {
    for (auto& kept : kept_) {
      if (kept.Matches(call)) return &kept;
    }
    return nullptr;
  }
  // Keeps the call, in place of an earlier one by the same plan or of the oldest.
  void Keep(const plan::Operation& operation, plan::BoundPlan& plan, std::uint64_t packed) {
    for (auto& kept : kept_) {
      if (kept.IsBy(plan)) return kept.Keep(operation, plan, packed);
    }
    kept_[oldest_].Keep(operation, plan, packed);
    oldest_ = (oldest_ + 1) % kept_.size();
  }
  // REQUIRED when numbers of sites may be given anew.
  void ForgetSites() {
    for (auto& kept : kept_) kept.ForgetSite();
  }
  // REQUIRED before plans are forgotten.
  void Forget() {
    for (auto& kept : kept_) kept.Forget();
  }

 private:
  static constexpr std::size_t kKept = 4;  // a training step's small collectives; each costs a comparison
  std::array<RepeatedCall, kKept> kept_;
  std::size_t oldest_ = 0;
};

}  // namespace tutti::host_side
