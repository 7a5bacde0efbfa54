#include "transports/plugin/buffers.h"

#include <algorithm>

namespace tutti::plugin {

const Memory* Rings::Find(std::uint32_t number, std::byte* begin, std::size_t bytes, Connection& connection, int rank,
                          progress::NetworkTransportEvents& events) {
  while (rings_.size() <= number) rings_.emplace_back();
  auto& ring = rings_[number];
  if (!ring.memory) {
    if (!connection.Register(begin, bytes, ring.memory)) return nullptr;
    ring.owner = events.MemoryOwner(rank, number);
  }
  return &ring.memory;
}

bool Rings::Owned() const {
  return std::ranges::all_of(rings_, [](const Ring& ring) { return !ring.memory || ring.owner != nullptr; });
}

}  // namespace tutti::plugin
