// How a message sits in a slot of host memory. The arithmetic of flags and counts is in slot_arithmetic.h.
//
// A ring has `depth` slots, one filler and one or more emptiers. Both count the slots they have dealt with, modulo
// 2^32; slot number c lies at index c % depth (depth is a power of two, so the wrap is seamless). The filler writes the
// data, then the flag (release); an emptier sees the flag (acquire), reads the data, then publishes its count
// (release), which lets the filler (acquire) use the slot again.
//
// The flag is unique to (slot number, operation): low half the slot number, high half a digest of the operation's
// signature and those of all before it. An emptier knows both halves beforehand, so one comparison detects arrival; an
// equal low half with another high half means that the two ranks are in different operations, or were before. A stale
// flag differs in the low half, because a slot only ever holds numbers that differ by multiples of depth.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "transports/ring/slot_arithmetic.h"

namespace tutti::ring {

inline constexpr std::size_t kCacheLine = 64;

// How bytes sit in a slot.
enum class Protocol : std::uint8_t {
  line,     // flag and data in one cache line, so that the slot costs one line's trip
  inlined,  // flag in the first line, data right behind it
  bulk,     // flag and description in a line of their own, data aligned behind it
};
inline constexpr int kProtocols = 3;

constexpr std::string_view NameOf(Protocol protocol) {
  return protocol == Protocol::line ? "line" : protocol == Protocol::inlined ? "inline" : "bulk";
}

constexpr std::optional<Protocol> ProtocolFromName(std::string_view name) {
  for (int i = 0; i < kProtocols; ++i) {
    if (NameOf(static_cast<Protocol>(i)) == name) return static_cast<Protocol>(i);
  }
  return std::nullopt;
}

enum class SlotKind : std::uint16_t {
  value,    // the data is in the slot
  pointer,  // `address` is valid in the reader's process
  window,   // `address` is an offset into the writer's registered window number `window`
  cma,      // `address` is valid in the writer's process: fetch it with process_vm_readv
};

struct SlotHeader {
  std::atomic<std::uint64_t> flag;
  std::uint32_t bytes;  // of this chunk
  SlotKind kind;
  std::uint16_t window;
  // Protocol::bulk only from here on; in the other formats the data begins here.
  std::uint64_t address;  // see SlotKind
  std::uint64_t unused;   // pads to 32 bytes: in an array of headers, as GPUs have, none lies on two cache lines
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "flags are shared between processes");

// A slot's description of itself, read once. Another process may be writing to the header's memory at this moment, so
// code that has checked a word must use the very copy that it checked.
struct SlotContent {
  std::uint32_t bytes;
  SlotKind kind;  // any number at all
};
struct SlotReference {
  std::uint64_t address;
  std::uint16_t window;
};

inline constexpr std::size_t kShortHeader = offsetof(SlotHeader, address);
static_assert(kShortHeader == 16 && sizeof(SlotHeader) <= kCacheLine);

struct SlotShape {
  std::uint32_t stride;       // bytes from slot to slot
  std::uint32_t depth;        // slots; a power of two
  std::uint32_t data_offset;  // bytes from the slot's start to its data
  std::uint32_t capacity;     // data bytes
};

// 64 lines let a broadcasting root run that many operations ahead. Inline slots are an odd number of lines apart so
// that successive ones fall into different cache sets. Together 15.5 KiB a pair (the design allows 16).
inline constexpr SlotShape kLineShape{64, 64, kShortHeader, 64 - kShortHeader};
inline constexpr SlotShape kInlineShape{23 * 64, 8, kShortHeader, 23 * 64 - kShortHeader};
static_assert(std::size_t{kLineShape.stride} * kLineShape.depth +
                  std::size_t{kInlineShape.stride} * kInlineShape.depth <=
              16 * 1024);

// Between hosts, the memory of a slot is this rank's own, and a message costs microseconds. So a sender may run further ahead,
// and emptied slots are reported seldom.
inline constexpr std::uint32_t kInlineNetworkDepth = 32;

// There is one post ring per rank and channel, not one per pair, so it can afford the depth of the line ring.
inline constexpr SlotShape kInlinePostShape{kInlineShape.stride, 64, kInlineShape.data_offset, kInlineShape.capacity};

// Bulk slots of `capacity` data bytes (a multiple of 64); an odd number of lines apart, as above.
constexpr SlotShape BulkShape(std::uint32_t capacity, std::uint32_t depth) {
  const auto line = static_cast<std::uint32_t>(kCacheLine);
  const std::uint32_t lines = capacity / line + 1;
  return {(lines | 1) * line, depth, line, capacity};
}

// Between two places of a slot's data. A core that copies data fetches lines behind them, too, which another core may be
// filling. The number of lines is odd, so that places fall into all sets of the caches.
inline constexpr std::size_t kGap = 25 * kCacheLine;

// Bytes from where a slot's data can begin to where the data of slot number `number` do, where slots' data change places
// over `span` bytes. Successive data then lie side by side, and lines are filled again only when they have left both
// cores' own caches. Filling a line that another core has read, and still holds, takes longer than reading it did.
constexpr std::size_t PlaceInSlot(std::uint32_t number, std::uint32_t depth, std::size_t bytes, std::size_t span) {
  const std::size_t pitch = (bytes + kCacheLine - 1) / kCacheLine * kCacheLine + kGap;
  return 2 * pitch > span ? 0 : number / depth % (span / pitch) * pitch;
}

}  // namespace tutti::ring
