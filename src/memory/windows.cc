#include "src/memory/windows.h"

#include <unistd.h>

#include <cstring>
#include <limits>

#include "base/error.h"
#include "src/memory/memory.h"
#include "transports/shm/shared_segments.h"

namespace tutti::memory {
namespace {

struct Offer {
  std::uint64_t offset;  // in the allocation
  std::uint64_t bytes;   // of the window
  bool valid;
};

}  // namespace

tuttiWindow* Windows::Register(shm::Fabric& fabric, void* buffer, std::size_t bytes, const shm::AllGather& all_gather,
                               Deadline deadline) {
  const auto found = FindAllocation(buffer, bytes);
  Offer offer{};
  if (found) offer = {found->offset, bytes, true};
  const auto all = all_gather(std::as_bytes(std::span<const Offer, 1>(&offer, 1)));
  std::vector<Offer> offers(static_cast<std::size_t>(fabric.nranks()));
  std::vector<int> without;
  for (std::size_t r = 0; r < offers.size(); ++r) {
    if (all[r].size() != sizeof(Offer)) Throw(tuttiInternalError, "rank {} sent a malformed window description", r);
    std::memcpy(&offers[r], all[r].data(), sizeof(Offer));
    const auto& offer = offers[r];
    if (!offer.valid) without.push_back(static_cast<int>(r));
  }
  if (!without.empty()) {
    Throw(tuttiInvalidArgument, "buff is not inside one tuttiMemAlloc allocation on rank{} {}",
          without.size() > 1 ? "s" : "", fmt::join(without, ", "));
  }
  if (windows_.size() > std::numeric_limits<std::uint16_t>::max()) {
    Throw(tuttiInvalidUsage, "more than {} windows were registered on this communicator", windows_.size());
  }

  Window window;
  window.handle = std::make_unique<tuttiWindow>(tuttiWindow{static_cast<std::uint16_t>(windows_.size())});
  window.begin = static_cast<const std::byte*>(buffer);
  window.bytes = bytes;
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
  windows_.push_back(std::move(window));
  ++live_;
  return windows_.back().handle.get();
}

void Windows::Deregister(tuttiWindow* handle, const shm::AllGather& all_gather) {
  for (auto& window : windows_) {
    if (window.handle.get() != handle || handle == nullptr) continue;
    all_gather({});
    window = Window{};
    --live_;
    return;
  }
  Throw(tuttiInvalidArgument, "win {} is not registered on this communicator", static_cast<const void*>(handle));
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
