#include "transports/ucx/arrivals.h"

#include <algorithm>

namespace tutti::ucx {

bool UcxArrivals::Take(std::span<const std::byte> bytes) {
  ++messages_;
  ++handed_on_;
  return events_.Control(peer_, bytes);
}

bool UcxArrivals::Message(std::uint32_t before, std::span<const std::byte> bytes) {
  if (Early(before) < 0 || early_messages_.size() >= kMostEarly) return false;
  if (Early(before) > 0) {
    early_messages_.push_back({before, {bytes.begin(), bytes.end()}});
    return true;
  }
  if (!Take(bytes)) return false;
  const auto next = [this] {
    return std::ranges::find_if(early_messages_, [this](const auto& each) { return Early(each.before) == 0; });
  };
  for (auto at = next(); at != early_messages_.end(); at = next()) {
    const auto message = std::move(at->bytes);
    early_messages_.erase(at);
    if (!Take(message)) return false;
  }
  HandOnSlots();
  return true;
}

void UcxArrivals::Slot(std::uint32_t before, const progress::SlotMessage& slot) {
  if (Early(before) > 0) {
    early_slots_.push_back({before, slot});
    return;
  }
  ++handed_on_;
  events_.Landed(peer_, slot);
}

void UcxArrivals::HandOnSlots() {
  std::erase_if(early_slots_, [this](const EarlySlot& early) {
    if (Early(early.before) > 0) return false;
    ++handed_on_;
    events_.Landed(peer_, early.slot);
    return true;
  });
}

}  // namespace tutti::ucx
