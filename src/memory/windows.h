// Windows: memory of every rank that every other rank of the host has mapped.
//
// A rank that deregisters a window keeps the others' parts mapped until they have deregistered it, too, because they may
// still send what lies there. It unmaps them at its next call that concerns windows.
//
// Thread-safety: Register is a collective control call. Both Finds may run concurrently with each other, but not with
// Register and Deregister. The communicator's lock ensures that. PartOf may be called at any time.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/all_gather.h"
#include "executors/host/run.h"
#include "src/memory/window_numbers.h"

struct tuttiWindow {
  std::uint16_t number;
};

namespace tutti::memory {

// For windows with a handle, begin and bytes, ordered by number: how peers access [pointer, pointer + bytes).
template <typename Window>
std::optional<host::RemoteAccess> FindWindow(const std::vector<Window>& windows, const void* pointer,
                                             std::size_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(pointer);
  for (const auto& window : windows) {
    if (window.handle == nullptr || begin < window.begin) continue;
    const auto offset = static_cast<std::size_t>(begin - window.begin);
    if (offset > window.bytes || bytes > window.bytes - offset) continue;
    return host::RemoteAccess{ring::SlotKind::window, window.handle->number, offset};
  }
  return std::nullopt;
}

// For windows with a handle: takes the handle from this one, and returns whether it was there.
template <typename Window>
bool Retire(std::vector<Window>& windows, const tuttiWindow* handle, const WindowNumbers& numbers) {
  for (auto& window : windows) {
    if (handle == nullptr || window.handle.get() != handle) continue;
    numbers.Release(handle->number);
    window.handle.reset();
    return true;
  }
  return false;
}

// For windows with a handle and parts: calls `body` with the number of each one that no rank of the host has any more.
template <typename Window, typename Body>
void ForEachRetired(std::vector<Window>& windows, const WindowNumbers& numbers, Body&& body) {
  for (std::size_t w = 0; w < windows.size(); ++w) {
    const auto number = static_cast<std::uint16_t>(w);
    if (windows[w].handle != nullptr || windows[w].parts.empty() || numbers.OthersHave(number)) continue;
    body(number, windows[w]);
  }
}

// For windows with a handle and parts: `peer`'s part of a window as mapped here; empty: it is not. Null if there is no
// such window.
template <typename Window>
std::optional<std::span<std::byte>> PartOfWindow(const std::vector<Window>& windows, const tuttiWindow* handle,
                                                 int peer) {
  for (const auto& window : windows) {
    if (handle != nullptr && window.handle.get() == handle) return window.parts[static_cast<std::size_t>(peer)];
  }
  return std::nullopt;
}

class Windows : public host::WindowMap {
 public:
  explicit Windows(const shm::Fabric& fabric) : numbers_(fabric) {}

  // Collective. Throws tuttiInvalidArgument if [buffer, buffer + bytes) is not inside one tuttiMemAlloc allocation on
  // every rank (naming the ranks where it is not), after reporting that to every rank.
  tuttiWindow* Register(shm::Fabric& fabric, void* buffer, std::size_t bytes, const AllGather& all_gather,
                        Deadline deadline);
  // Local. Throws tuttiInvalidArgument for a window that is not (or no longer) registered here.
  void Deregister(const tuttiWindow* window);
  // PartOfWindow().
  std::optional<std::span<std::byte>> PartOf(const tuttiWindow* window, int peer) const;

  // How peers access [pointer, pointer + bytes), if a window of this rank holds it.
  std::optional<host::RemoteAccess> Find(const void* pointer, std::size_t bytes) const;
  const std::byte* Find(int rank, std::uint16_t window, std::uint64_t offset, std::size_t bytes) const override;
  bool empty() const { return live_ == 0; }

 private:
  struct Window {
    std::unique_ptr<tuttiWindow> handle;
    const std::byte* begin = nullptr;
    std::size_t bytes = 0;
    std::vector<shm::Segment> segments;       // by rank
    std::vector<std::span<std::byte>> parts;  // by rank: where its part is mapped
  };
  void UnmapRetired();

  WindowNumbers numbers_;
  mutable std::mutex mutex_;     // held while windows_ changes, and by PartOf
  std::vector<Window> windows_;  // by number
  std::size_t live_ = 0;
};

}  // namespace tutti::memory
