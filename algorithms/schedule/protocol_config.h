// How a plan's slots are shaped.
//
// Thread-safety: value type.
#pragma once

#include <cstddef>
#include <string_view>

#include "transports/ring/layout.h"
#include "transports/ring/slot.h"

namespace tutti::schedule {

struct ProtocolConfig {
  ring::Protocol protocol = ring::Protocol::bulk;
  std::size_t chunk_bytes = 0;  // of each block at a time; a multiple of 64 unless it covers whole blocks
  // Slots to other processes of the host refer to plain memory, which the reader fetches with process_vm_readv: one
  // copy instead of two. Only with Protocol::bulk.
  bool cma = false;

  friend bool operator==(const ProtocolConfig&, const ProtocolConfig&) = default;
};

// For people.
constexpr std::string_view DescribeSlots(const ProtocolConfig& config) {
  return config.cma ? "bulk by process_vm_readv" : ring::NameOf(config.protocol);
}

// Slots of a connection on one host, as transports have them. Between hosts, a connection has at least as many.
constexpr int SlotDepth(ring::Protocol protocol) {
  return static_cast<int>(protocol == ring::Protocol::line      ? ring::kLineShape.depth
                          : protocol == ring::Protocol::inlined ? ring::kInlineShape.depth
                                                                : ring::kBulkDepth);
}

}  // namespace tutti::schedule
