#include "parallel/sharded/pass_order.h"

#include <fmt/format.h>

#include <utility>

#include "tutti/parallel/error.h"

namespace tutti::parallel {

PassOrder::PassOrder(std::vector<int> chunks) : chunks_(std::move(chunks)) {}

void PassOrder::SetNextPass(std::optional<std::size_t> first_unit) {
  if (first_unit && *first_unit >= chunks_.size()) {
    throw Error(tuttiInvalidArgument,
                fmt::format("the next pass cannot begin with unit {} of {}", *first_unit, chunks_.size()));
  }
  next_pass_ = first_unit;
}

std::optional<std::size_t> PassOrder::AfterForward(std::size_t unit) {
  return EndsForward(unit) ? TakeNextPass() : unit + 1;
}

std::optional<std::size_t> PassOrder::AfterBackward(std::size_t unit) {
  return EndsBackward(unit) ? TakeNextPass() : unit - 1;
}

std::optional<std::size_t> PassOrder::AfterBackwardWeight(std::size_t unit) {
  return EndsBackward(unit) ? TakeNextPass() : std::nullopt;
}

bool PassOrder::EndsForward(std::size_t unit) const {
  return unit + 1 == chunks_.size() || chunks_[unit + 1] != chunks_[unit];
}

std::optional<std::size_t> PassOrder::TakeNextPass() { return std::exchange(next_pass_, std::nullopt); }

}  // namespace tutti::parallel
