// The two ends of a ring of slots that GPUs fill and empty: plain data in the owner's memory, with addresses that the
// owner's GPU can use. slot.h explains the words, and executors/cuda/kernels/{packet,line128}.h the packets and lines.
//
// Words that a reader waits for lie in the reader's memory, and words that a filler waits for in the filler's, so that
// polls stay on their own GPU.
//
// Thread-safety: an end belongs to the one thread block that runs its lane.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transports/ring/slot.h"

namespace tutti::cuda_transport {

// SlotHeader's bytes, kind and window in one word, so that one load yields the value that is checked and then used.
class DeviceSlotContent {
 public:
  constexpr explicit DeviceSlotContent(std::uint64_t word) : word_(word) {}
  constexpr DeviceSlotContent(std::uint32_t bytes, ring::SlotKind kind, std::uint16_t window)
      : word_(bytes | static_cast<std::uint64_t>(kind) << 32 | static_cast<std::uint64_t>(window) << 48) {}
  constexpr std::uint64_t word() const { return word_; }
  constexpr std::uint32_t bytes() const { return static_cast<std::uint32_t>(word_); }
  constexpr ring::SlotKind kind() const { return static_cast<ring::SlotKind>(word_ >> 32 & 0xffff); }
  constexpr std::uint32_t window() const { return static_cast<std::uint32_t>(word_ >> 48); }

 private:
  std::uint64_t word_;
};

// A bulk slot's header, in its reader's memory: SlotHeader's words as plain integers, so that a network engine of the
// host can be at the other end.
struct DeviceSlotHeader {
  std::uint64_t flag;     // SlotFlag
  std::uint64_t content;  // DeviceSlotContent; of the kinds value, pointer and window
  std::uint64_t address;
  std::uint64_t unused;
};
static_assert(sizeof(DeviceSlotHeader) == sizeof(ring::SlotHeader) &&
              offsetof(DeviceSlotHeader, content) == offsetof(ring::SlotHeader, bytes) &&
              offsetof(ring::SlotHeader, kind) == offsetof(ring::SlotHeader, bytes) + sizeof(std::uint32_t) &&
              offsetof(ring::SlotHeader, window) == offsetof(ring::SlotHeader, kind) + sizeof(std::uint16_t) &&
              offsetof(DeviceSlotHeader, address) == offsetof(ring::SlotHeader, address));

// A reader of a fill end: one rank, or for a post each other rank.
struct DeviceReader {
  DeviceSlotHeader* headers;  // bulk: of the slots, in the reader's memory
  std::byte* packets;  // line, inline: the slots themselves, in the reader's memory; null: a network takes bulk slots
  const std::uint32_t* head;  // how many slots it has emptied; in this rank's memory
};

struct DeviceFillEnd {
  std::byte* data;  // bulk: the slots' data; in the reader's memory, or (a post) in this rank's
  const DeviceReader* readers;
  std::uint32_t reader_count;
  std::uint32_t stride;         // bytes from slot to slot
  std::uint32_t header_stride;  // bulk: from header to header
  std::uint32_t depth;
  std::uint32_t tail;        // slots filled
  std::uint32_t known_head;  // slots that all readers had emptied when last looked
  std::uint32_t wraps;       // how often `tail` has wrapped
  std::uint32_t unused;
};

struct DeviceEmptyEnd {
  const DeviceSlotHeader* headers;
  const std::byte* packets;  // null: a network brings bulk slots
  const std::byte* data;
  std::uint32_t* head;  // this end's count, in the filler's memory, where it polls
  std::uint32_t stride;
  std::uint32_t header_stride;
  std::uint32_t depth;
  std::uint32_t count;  // slots emptied
  std::int32_t peer;
  std::uint32_t wraps;  // how often `count` has wrapped
};

}  // namespace tutti::cuda_transport
