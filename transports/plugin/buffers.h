// The buffers of a connection's messages: pages that a plug-in may register, because no other data shares them.
#pragma once

#include <array>
#include <cstddef>

#include "transports/plugin/connection.h"
#include "transports/plugin/messages.h"

namespace tutti::plugin {

struct alignas(kMessageBytes) Buffers {
  static constexpr std::size_t kMessages = Connection::kMost;

  std::array<std::array<std::byte, kMessageBytes>, kMessages> messages{};
  // The message with which the data connection begins.
  std::array<std::byte, kMessageBytes> hello{};
};

}  // namespace tutti::plugin
