#include "src/windows.h"

#include <unistd.h>

#include <cstring>
#include <limits>

#include "base/error.h"
#include "src/memory.h"

namespace tutti {
namespace {

struct Offer {
  std::uint64_t address;  // of the allocation, for ranks of the same process
  std::uint64_t allocation_bytes;
  std::uint64_t offset;
  bool valid;
};

}  // namespace

tuttiWindow* Windows::Register(Fabric& fabric, void* buffer, std::size_t bytes, const AllGather& all_gather,
                               Deadline deadline) {
  const auto found = FindAllocation(buffer, bytes);
  Offer offer{};
  if (found) offer = {reinterpret_cast<std::uint64_t>(found->data), found->bytes, found->offset, true};
  const auto all = all_gather(std::as_bytes(std::span<const Offer, 1>(&offer, 1)));
  std::vector<Offer> offers(static_cast<std::size_t>(fabric.nranks()));
  std::vector<int> without;
  for (std::size_t r = 0; r < offers.size(); ++r) {
    if (all[r].size() != sizeof(Offer)) Throw(tuttiInternalError, "rank {} sent a malformed window", r);
    std::memcpy(&offers[r], all[r].data(), sizeof(Offer));
    if (!offers[r].valid) without.push_back(static_cast<int>(r));
  }
  if (!without.empty()) {
    Throw(tuttiInvalidArgument, "buff is not inside one tuttiMemAlloc allocation on rank{} {}",
          without.size() > 1 ? "s" : "", fmt::join(without, ", "));
  }
  if (windows_.size() > std::numeric_limits<std::uint16_t>::max()) {
    Throw(tuttiInvalidUsage, "more than {} windows were registered on this communicator", windows_.size());
  }

  const int fd = found->fd;
  auto descriptors = ExchangeDescriptors(fabric.rank(), fabric.local(), std::span(&fd, 1), all_gather, deadline);

  Window window;
  window.handle = std::make_unique<tuttiWindow>(tuttiWindow{static_cast<std::uint16_t>(windows_.size())});
  window.begin = static_cast<const std::byte*>(buffer);
  window.bytes = bytes;
  window.segments.resize(offers.size());
  window.bases.resize(offers.size());
  for (std::size_t i = 0; i < fabric.local().size(); ++i) {
    const int r = fabric.local()[i];
    const auto at = static_cast<std::size_t>(r);
    window.segments[at] = fabric.same_process(r) ? Segment::Share(reinterpret_cast<std::byte*>(offers[at].address),
                                                                  offers[at].allocation_bytes)
                                                 : Segment::Map(descriptors[i].at(0), offers[at].allocation_bytes);
    window.bases[at] = window.segments[at].data() + offers[at].offset;
  }
  // Nobody may use the window before everybody has mapped it.
  all_gather({});
  windows_.push_back(std::move(window));
  ++live_;
  return windows_.back().handle.get();
}

void Windows::Deregister(tuttiWindow* handle, const AllGather& all_gather) {
  for (auto& window : windows_) {
    if (window.handle.get() != handle || handle == nullptr) continue;
    all_gather({});
    window = Window{};
    --live_;
    return;
  }
  Throw(tuttiInvalidArgument, "win {} is not registered on this communicator", static_cast<const void*>(handle));
}

std::optional<Reach> Windows::Find(const void* pointer, std::size_t bytes) const {
  return FindWindow(windows_, pointer, bytes);
}

const std::byte* Windows::Base(int rank, std::uint16_t number) const {
  if (number >= windows_.size() || windows_[number].bases.empty()) return nullptr;
  return windows_[number].bases[static_cast<std::size_t>(rank)];
}

}  // namespace tutti
