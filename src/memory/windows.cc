#include "src/memory/windows.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace tutti::memory {
namespace {

std::uint64_t BitOf(std::uint16_t number) { return std::uint64_t{1} << number % ring::kWindowWordBits; }

std::atomic<std::uint64_t>& WordOf(const shm::Fabric& fabric, int rank, std::uint16_t number) {
  return fabric.control(rank).windows[number / ring::kWindowWordBits];
}

}  // namespace

WindowNumbers::Taken WindowNumbers::taken() const {
  Taken taken;
  const auto& words = fabric_.control(fabric_.rank()).windows;
  std::ranges::transform(words, taken.begin(), [](const auto& word) { return word.load(std::memory_order_relaxed); });
  return taken;
}

std::uint16_t WindowNumbers::Free(std::span<const Taken> all, std::size_t most) {
  for (std::size_t w = 0; w < ring::kWindowWords; ++w) {
    std::uint64_t taken = 0;
    for (const Taken& each : all) taken |= each[w];
    const std::size_t number = w * ring::kWindowWordBits + static_cast<std::size_t>(std::countr_one(taken));
    if (number < std::min(most, (w + 1) * ring::kWindowWordBits)) return static_cast<std::uint16_t>(number);
  }
  Throw(tuttiInvalidUsage, "{} windows are registered on this communicator; it takes no more at a time", most);
}

void WindowNumbers::Take(std::uint16_t number) const {
  WordOf(fabric_, fabric_.rank(), number).fetch_or(BitOf(number), std::memory_order_relaxed);
}

// Release and acquire: who finds the number gone also finds that the rank's last reads are over.
void WindowNumbers::Release(std::uint16_t number) const {
  WordOf(fabric_, fabric_.rank(), number).fetch_and(~BitOf(number), std::memory_order_release);
}

bool WindowNumbers::OthersHave(std::uint16_t number) const {
  return std::ranges::any_of(fabric_.local(), [&](int rank) {
    return rank != fabric_.rank() &&
           (WordOf(fabric_, rank, number).load(std::memory_order_acquire) & BitOf(number)) != 0;
  });
}

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

std::optional<host::RemoteAccess> Windows::Find(const void* pointer, std::size_t bytes, bool symmetric) const {
  if (live_ == 0) return std::nullopt;
  const auto* const begin = static_cast<const std::byte*>(pointer);
  for (const auto& window : windows_) {
    if (window.handle == nullptr || begin < window.begin || (symmetric && !window.symmetric)) continue;
    const auto offset = static_cast<std::size_t>(begin - window.begin);
    if (offset > window.bytes || bytes > window.bytes - offset) continue;
    return host::RemoteAccess{ring::SlotKind::window, window.handle->number, offset};
  }
  return std::nullopt;
}

void Windows::MakeSymmetric(const tuttiWindow* handle) {
  const std::lock_guard lock(mutex_);
  windows_[handle->number].symmetric = true;
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
  auto handle = std::make_unique<tuttiWindow>(tuttiWindow{number});
  if (!window.parts.empty()) --retired_;  // the one before was not closed yet
  window = {std::move(handle), static_cast<const std::byte*>(buffer), bytes, std::move(parts), false, std::move(reach)};
  ++live_;
  return window.handle.get();
}

}  // namespace tutti::memory
