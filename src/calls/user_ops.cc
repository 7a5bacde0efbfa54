#include "src/calls/user_ops.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "base/error.h"

namespace tutti::calls {
namespace {

// A number has a serial number above a place; both together fill the bits of tuttiMaxRedOp.
constexpr int kPlaceBits = std::countr_zero(UserOps::kMost);
constexpr std::uint32_t kSerials = (std::uint32_t{tuttiMaxRedOp} + 1) >> kPlaceBits;

tuttiRedOp_t NumberAt(std::size_t place) {
  static std::atomic<std::uint32_t> made{0};
  // Serial number 0 would give the numbers of built-in operators.
  const std::uint32_t serial = 1 + made.fetch_add(1, std::memory_order_relaxed) % (kSerials - 1);
  return static_cast<tuttiRedOp_t>(serial << kPlaceBits | place);
}

std::size_t PlaceOf(tuttiRedOp_t number) { return static_cast<std::size_t>(number) % UserOps::kMost; }

}  // namespace

tuttiRedOp_t UserOps::Add(const UserOp& op) {
  auto free = std::ranges::find(places_, tuttiSum, &Place::number);
  if (free == places_.end()) {
    if (places_.size() == kMost) Throw(tuttiInvalidUsage, "comm already has {} operators; destroy some", kMost);
    free = places_.insert(free, Place{});
  }
  *free = {NumberAt(static_cast<std::size_t>(free - places_.begin())), op};
  return free->number;
}

const UserOp* UserOps::Find(tuttiRedOp_t number) const {
  const std::size_t place = PlaceOf(number);
  if (number < tuttiNumOps || place >= places_.size() || places_[place].number != number) return nullptr;
  return &places_[place].op;
}

bool UserOps::Remove(tuttiRedOp_t number) {
  if (Find(number) == nullptr) return false;
  places_[PlaceOf(number)].number = tuttiSum;
  return true;
}

}  // namespace tutti::calls
