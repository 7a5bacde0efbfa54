// A thread's knowledge about memory. In the model no store overwrites another: each location keeps its stores in
// modification order, and a thread may read any that is not older than what it knows. An acquire load adopts the view that
// a release store attached to its value.
//
// Thread-safety: value types.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

namespace tutti::model {

inline constexpr int kMostThreads = 5;     // of a model
inline constexpr int kEnd = kMostThreads;  // the actor that checks the result at the end
inline constexpr int kActors = kMostThreads + 1;
inline constexpr int kMostLocations = 64;

constexpr bool Acquires(std::memory_order order) {
  return order != std::memory_order_relaxed && order != std::memory_order_release;
}
constexpr bool Releases(std::memory_order order) {
  return order == std::memory_order_release || order >= std::memory_order_acq_rel;
}
constexpr bool IsSc(std::memory_order order) { return order == std::memory_order_seq_cst; }

// A vector clock of happens-before. Each actor has a second component for its non-temporal stores, which only a
// StreamFence publishes, not a release.
struct Clock {
  std::array<std::uint16_t, 2 * kActors> at{};

  void Join(const Clock& other) {
    for (std::size_t i = 0; i < at.size(); ++i) at[i] = std::max(at[i], other.at[i]);
  }
};
constexpr std::size_t StreamOf(int actor) { return static_cast<std::size_t>(kActors + actor); }

struct View {
  std::array<std::uint8_t, kMostLocations> seen{};  // the oldest store of each location that may still be read
  Clock clock;

  void JoinSeen(const View& other) {
    for (std::size_t i = 0; i < seen.size(); ++i) seen[i] = std::max(seen[i], other.seen[i]);
  }
  void Join(const View& other) {
    JoinSeen(other);
    clock.Join(other.clock);
  }
};

// Names a part of an execution; equal parts have equal names.
struct Hash {
  std::uint64_t low = 0x9e3779b97f4a7c15, high = 0xc2b2ae3d27d4eb4f;

  void Fold(std::uint64_t value) {
    low = Stir(low ^ value);
    high = Stir(high + value * 0x165667b19e3779f9 + 1);
  }
  void Add(const Hash& other) {  // in any order
    low += other.low;
    high += other.high;
  }
  bool operator==(const Hash&) const = default;

 private:
  static constexpr std::uint64_t Stir(std::uint64_t x) {
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93;
    return x ^ (x >> 32);
  }
};

}  // namespace tutti::model
