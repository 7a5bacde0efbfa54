#include "src/memory/window_numbers.h"

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

}  // namespace tutti::memory
