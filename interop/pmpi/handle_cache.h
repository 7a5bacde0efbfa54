// What is known of MPI's handles, for the short path: a thread's latest handles with what belongs to them. MPI may give
// a freed handle's value to a new object; so each time that one is freed, all threads forget what they know.
//
// Thread-safety: a HandleCache belongs to one thread; an Epoch is used by all.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>

namespace tutti::pmpi {

class Epoch {
 public:
  std::uint64_t now() const { return now_.load(std::memory_order_acquire); }
  void Next() { now_.fetch_add(1, std::memory_order_acq_rel); }

 private:
  std::atomic<std::uint64_t> now_{1};
};

// Mixes a handle's bits: MPICH numbers handles in their low bits, and Open MPI's are addresses.
template <typename Handle>
std::size_t HashOf(Handle handle) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &handle, sizeof handle);
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 divided by the golden ratio
  constexpr int kUpper = 48;
  return static_cast<std::size_t>(bits * kGolden >> kUpper);
}

template <typename Handle, typename Value>
class HandleCache {
 public:
  // Null: not known.
  Value* Find(Handle handle, const Epoch& epoch) const {
    const auto& place = places_[HashOf(handle) % kPlaces];
    return place.handle == handle && place.epoch == epoch.now() ? place.value : nullptr;
  }
  void Keep(Handle handle, Value* value, std::uint64_t epoch) {
    places_[HashOf(handle) % kPlaces] = {handle, epoch, value};
  }

 private:
  static constexpr std::size_t kPlaces = 16;  // more than the communicators and types of a program's inner loop
  struct Place {
    Handle handle{};
    std::uint64_t epoch = 0;
    Value* value = nullptr;
  };
  std::array<Place, kPlaces> places_{};
};

}  // namespace tutti::pmpi
