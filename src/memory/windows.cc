#include "src/memory/windows.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/all_gather.h"
#include "base/error.h"
#include "src/memory/memory.h"
#include "transports/shm/shared_segments.h"

namespace tutti::memory {
namespace {

struct Offer {
  std::uint64_t offset;  // in the allocation
  std::uint64_t bytes;   // of the window
  bool valid;
  WindowNumbers::Taken taken;
};

}  // namespace

tuttiWindow* Windows::Register(shm::Fabric& fabric, void* buffer, std::size_t bytes, const AllGather& all_gather,
                               Deadline deadline) {
  UnmapRetired();
  const auto found = FindAllocation(buffer, bytes);
  Offer offer{0, 0, false, numbers_.taken()};
  if (found) offer = {found->offset, bytes, true, offer.taken};
  const auto offers = GatherValues(all_gather, offer);
  std::vector<int> without;
  std::vector<WindowNumbers::Taken> taken;
  for (std::size_t r = 0; r < offers.size(); ++r) {
    if (!offers[r].valid) without.push_back(static_cast<int>(r));
    taken.push_back(offers[r].taken);
  }
  if (!without.empty()) {
    Throw(tuttiInvalidArgument, "buff is not inside one tuttiMemAlloc allocation on rank{} {}",
          without.size() > 1 ? "s" : "", fmt::join(without, ", "));
  }
  const std::uint16_t number = WindowNumbers::Free(taken, ring::kMostWindows);

  Window window;
  window.handle = std::make_unique<tuttiWindow>(tuttiWindow{number});
  window.begin = static_cast<const std::byte*>(buffer);
  window.bytes = bytes;
  // Before the last exchange, so that no rank finds the number gone that has not been taken yet.
  numbers_.Take(number);
  window.segments = shm::ShareSegments(fabric, found->fd, found->mapping, all_gather, deadline);
  window.parts.resize(offers.size());
  for (const int r : fabric.local()) {
    const auto at = static_cast<std::size_t>(r);
    const auto room = window.segments[at].bytes();
    if (offers[at].offset > room || offers[at].bytes > room - offers[at].offset) {
      Throw(tuttiInternalError, "rank {} offered a window that lies outside its allocation", r);
    }
    window.parts[at] = {window.segments[at].data() + offers[at].offset, offers[at].bytes};
  }
  const std::lock_guard lock(mutex_);
  windows_.resize(std::max(windows_.size(), std::size_t{number} + 1));
  windows_[number] = std::move(window);
  ++live_;
  return windows_[number].handle.get();
}

void Windows::Deregister(const tuttiWindow* handle) {
  std::unique_lock lock(mutex_);
  if (!Retire(windows_, handle, numbers_)) {
    Throw(tuttiInvalidArgument, "win {} is not registered on this communicator", static_cast<const void*>(handle));
  }
  --live_;
  lock.unlock();
  UnmapRetired();
}

void Windows::UnmapRetired() {
  const std::lock_guard lock(mutex_);
  ForEachRetired(windows_, numbers_, [](std::uint16_t, Window& window) { window = Window{}; });
}

std::optional<std::span<std::byte>> Windows::PartOf(const tuttiWindow* handle, int peer) const {
  const std::lock_guard lock(mutex_);
  return PartOfWindow(windows_, handle, peer);
}

std::optional<host::RemoteAccess> Windows::Find(const void* pointer, std::size_t bytes) const {
  return FindWindow(windows_, pointer, bytes);
}

const std::byte* Windows::Find(int rank, std::uint16_t number, std::uint64_t offset, std::size_t bytes) const {
  if (number >= windows_.size() || windows_[number].parts.empty()) return nullptr;
  const auto part = windows_[number].parts[static_cast<std::size_t>(rank)];
  if (offset > part.size() || bytes > part.size() - offset) return nullptr;
  return part.data() + offset;
}

}  // namespace tutti::memory
