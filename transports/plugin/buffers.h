// Memory of a connection's requests: the buffers of its messages, which are pages that a plug-in may register, because no
// other data shares them; and the rings of the slots.
//
// Thread-safety: one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "transports/plugin/connection.h"
#include "transports/plugin/messages.h"
#include "transports/progress/network_transport.h"

namespace tutti::plugin {

struct alignas(kMessageBytes) Buffers {
  static constexpr std::size_t kMessages = Connection::kMost;

  std::array<std::array<std::byte, kMessageBytes>, kMessages> messages{};
  // The message with which the data connection begins.
  std::array<std::byte, kMessageBytes> hello{};
};

// The rings that a connection sends from or receives into, by number of the slots' connection.
class Rings {
 public:
  // Null: the ring cannot be registered; the connection knows why. REQUIRES: `begin` is where ring `number` begins.
  const Memory* Find(std::uint32_t number, std::byte* begin, std::size_t bytes, Connection& connection, int rank,
                     progress::NetworkTransportEvents& events);
  // They stay in memory as long as this object.
  bool Owned() const;
  void Drop() { rings_.clear(); }

 private:
  struct Ring {
    std::shared_ptr<const void> owner;
    Memory memory;  // goes before the owner
  };

  std::deque<Ring> rings_;
};

}  // namespace tutti::plugin
