#include "src/memory/windows.h"

#include <algorithm>

namespace tutti::memory {

bool Windows::Deregister(const tuttiWindow* handle) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(windows_, handle, [](const Window& window) { return window.handle.get(); });
    if (handle == nullptr || found == windows_.end()) return false;
    numbers_.Release(handle->number);
    found->handle.reset();
    --live_;
    ++retired_;
  }
  CloseRetired();
  return true;
}

std::optional<std::span<std::byte>> Windows::PartOf(const tuttiWindow* handle, int peer) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(windows_, handle, [](const Window& window) { return window.handle.get(); });
  if (handle == nullptr || found == windows_.end()) return std::nullopt;
  return found->parts[static_cast<std::size_t>(peer)];
}

std::optional<host::RemoteAccess> Windows::Find(const void* pointer, std::size_t bytes) const {
  if (live_ == 0) return std::nullopt;
  const auto* const begin = static_cast<const std::byte*>(pointer);
  for (const auto& window : windows_) {
    if (window.handle == nullptr || begin < window.begin) continue;
    const auto offset = static_cast<std::size_t>(begin - window.begin);
    if (offset > window.bytes || bytes > window.bytes - offset) continue;
    return host::RemoteAccess{ring::SlotKind::window, window.handle->number, offset};
  }
  return std::nullopt;
}

void Windows::CloseRetired() {
  if (retired_ == 0) return;
  const std::lock_guard lock(mutex_);
  for (std::size_t w = 0; w < windows_.size(); ++w) {
    const auto number = static_cast<std::uint16_t>(w);
    if (windows_[w].handle != nullptr || windows_[w].parts.empty() || numbers_.OthersHave(number)) continue;
    Close(number);
    windows_[w] = Window{};
    --retired_;
  }
}

tuttiWindow* Windows::Keep(std::uint16_t number, const void* buffer, std::size_t bytes, Parts parts,
                           std::shared_ptr<const void> reach) {
  const std::lock_guard lock(mutex_);
  windows_.resize(std::max(windows_.size(), std::size_t{number} + 1));
  auto& window = windows_[number];
  if (!window.parts.empty()) --retired_;  // the one before was not closed yet
  window = {std::make_unique<tuttiWindow>(tuttiWindow{number}), static_cast<const std::byte*>(buffer), bytes,
            std::move(parts), std::move(reach)};
  ++live_;
  return window.handle.get();
}

}  // namespace tutti::memory
