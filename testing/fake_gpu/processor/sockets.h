// Messages with a descriptor over local sockets.
//
// Thread-safety: all of it.
#pragma once

#include <cstddef>
#include <span>

namespace tutti::fake_gpu {

// Sends the pieces as one message, with `file` if it is not negative. False if the other side is gone.
bool SendMessage(int socket, std::span<const std::span<const std::byte>> pieces, int file = -1);
// Receives one message into `to`; returns its length, 0 if the other side is gone. *file: its descriptor, or -1.
std::size_t ReceiveMessage(int socket, std::span<std::byte> to, int* file);

}  // namespace tutti::fake_gpu
