// The memory that a model's program and threads share: all their allocations. Each execution starts with zeros and the
// same addresses. It records which actor touched each byte, to find unordered conflicting accesses and accesses to
// freed memory.
//
// Thread-safety: one thread; the model's threads are fibers of it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "tests/model/view.h"

namespace tutti::model {

enum class Access { read, write, streamed, free };

class Heap {
 public:
  Heap();

  void Reset();
  // Allocates zeroed lines in the actor's own region, so that addresses do not depend on the order of actors.
  void* Allocate(int actor, std::size_t bytes);
  bool Contains(const volatile void* address) const {
    const auto* at = static_cast<const volatile std::byte*>(address);
    return at >= bytes_ && at < bytes_ + kActors * kRegion;
  }
  std::size_t OffsetOf(const volatile void* address) const {
    return static_cast<std::size_t>(static_cast<const volatile std::byte*>(address) - bytes_);
  }
  // The size of the allocation that starts at `allocation`.
  std::size_t SizeOf(const void* allocation) const;

  // Records an access by an actor whose knowledge is `clock`. Returns what is wrong with it, or null.
  const char* Touch(int actor, const Clock& clock, std::uint16_t stream_stamp, const volatile void* address,
                    std::size_t bytes, Access access);
  // The same for an atomic access, which races only with accesses that are not atomic.
  const char* TouchAtomically(int actor, const Clock& clock, const volatile void* address, std::size_t bytes);
  // The writer and time of a plain write since the last call to bytes that are sometimes atomics, or nothing.
  struct PlainWrite {
    std::uint8_t writer;
    std::uint16_t stamp;
  };
  std::optional<PlainWrite> TakePlainWrite(const volatile void* address);

 private:
  static constexpr std::size_t kRegion = std::size_t{1} << 18;
  static constexpr std::size_t kLine = 64;

  struct Cell {
    std::uint32_t execution = 0;  // to which the other fields belong
    std::uint16_t stamp = 0;      // of the last write
    std::uint8_t writer = 0;      // its index in clocks
    bool written = false;
    bool freed = false;
    bool news = false;  // plainly written since its last atomic read
    std::array<std::uint16_t, kActors> reads{};
  };
  Cell& Fresh(std::size_t offset);
  static const char* Conflict(int actor, const Clock& clock, const Cell& cell);

  std::unique_ptr<std::byte[]> storage_;
  std::byte* bytes_;
  std::array<std::size_t, kActors> used_{};
  std::uint32_t execution_ = 0;
  std::vector<Cell> cells_;
};

}  // namespace tutti::model
