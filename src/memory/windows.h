// Windows: memory of every rank that every other rank of the host has mapped.
//
// Thread-safety: Register and Deregister are collective control calls. Both Finds may run concurrently with each other,
// but not with those two. The communicator's lock ensures that.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "executors/host/run.h"

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

class Windows : public host::WindowMap {
 public:
  // Collective. Throws tuttiInvalidArgument if [buffer, buffer + bytes) is not inside one tuttiMemAlloc allocation on
  // every rank (naming the ranks where it is not), after reporting that to every rank.
  tuttiWindow* Register(shm::Fabric& fabric, void* buffer, std::size_t bytes, const shm::AllGather& all_gather,
                        Deadline deadline);
  // Collective: no rank's mapping ends before every rank has stopped using the window. Throws tuttiInvalidArgument for
  // a window that is not (or no longer) registered here.
  void Deregister(tuttiWindow* window, const shm::AllGather& all_gather);

  // How peers access [pointer, pointer + bytes), if a window of this rank holds it.
  std::optional<host::RemoteAccess> Find(const void* pointer, std::size_t bytes) const;
  const std::byte* Find(int rank, std::uint16_t window, std::uint64_t offset, std::size_t bytes) const override;
  bool empty() const { return live_ == 0; }

 private:
  struct Window {
    std::unique_ptr<tuttiWindow> handle;
    const std::byte* begin = nullptr;
    std::size_t bytes = 0;
    std::vector<shm::Segment> segments;             // by rank
    std::vector<std::span<const std::byte>> parts;  // by rank: where its part is mapped
  };

  std::vector<Window>
      windows_;  // by number; a deregistered one keeps its place, so that numbers stay equal on all ranks
  std::size_t live_ = 0;
};

}  // namespace tutti::memory
