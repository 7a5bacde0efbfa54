// The memory that a model's threads share: everything that its program and its threads allocate. It begins each
// execution as zeros and at the same addresses, and it knows who touched each byte, so that two accesses that nothing
// orders, and an access to what was freed, are found.
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
  // From the actor's own region, so that addresses do not depend on who came first; on lines of its own, zeroed.
  void* Allocate(int actor, std::size_t bytes);
  bool Contains(const volatile void* address) const {
    const auto* at = static_cast<const volatile std::byte*>(address);
    return at >= bytes_ && at < bytes_ + kActors * kRegion;
  }
  std::size_t OffsetOf(const volatile void* address) const {
    return static_cast<std::size_t>(static_cast<const volatile std::byte*>(address) - bytes_);
  }
  // Of the allocation that begins there.
  std::size_t SizeOf(const void* allocation) const;

  // Notes an access by an actor that knows what `clock` says. What is wrong with it, or null.
  const char* Touch(int actor, const Clock& clock, std::uint16_t stream_stamp, const volatile void* address,
                    std::size_t bytes, Access access);
  // The same for an atomic, which races only with accesses that are none.
  const char* TouchAtomically(int actor, const Clock& clock, const volatile void* address, std::size_t bytes);
  // Bytes that are atomics at times were written plainly since this was last asked: by whom, and when; else null.
  struct PlainWrite {
    std::uint8_t writer;
    std::uint16_t stamp;
  };
  std::optional<PlainWrite> TakePlainWrite(const volatile void* address);

 private:
  static constexpr std::size_t kRegion = std::size_t{1} << 16;
  static constexpr std::size_t kLine = 64;

  struct Cell {
    std::uint32_t execution = 0;  // of which the rest tells
    std::uint16_t stamp = 0;      // of the last write
    std::uint8_t writer = 0;      // its component of clocks
    bool written = false;
    bool freed = false;
    bool news = false;  // written since it was last read as an atomic
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
