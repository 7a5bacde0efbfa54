// Whole messages with file descriptors over a connected Unix socket (SOCK_SEQPACKET).
//
// A descriptor that other processes share never makes a call wait here: they can clear its O_NONBLOCK at any time, so
// each call says itself that it does not wait.
//
// Thread-safety: functions without state; one thread at a time for each socket and direction.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/clocks/deadline.h"
#include "base/file_descriptor.h"

namespace tutti::shm {

// The kernel takes 253 per message (SCM_MAX_FD).
inline constexpr std::size_t kMaxDescriptorsPerMessage = 96;

// Returns 0, or the error. While the user has more descriptors in flight than a process may hold (ETOOMANYREFS), from
// any of its jobs, or the peer has too many unread messages, waits until the deadline. REQUIRES: at most kMaxDescriptorsPerMessage.
int SendMessage(int socket, std::span<const std::byte> body, std::span<const int> fds, Deadline deadline);

enum class Received { message, gone, malformed, no_descriptors_left };
// Receives the next message, which must have the size of `body`. Descriptors that came are always owned. If nothing has
// come: gone.
Received ReceiveMessage(int socket, std::span<std::byte> body, std::vector<FileDescriptor>& fds);
// As above, but refuses descriptors: the kernel closes them, and they never arrive here.
Received ReceiveMessage(int socket, std::span<std::byte> body);

// Whether a peer gave what it should: a Unix socket of this type, so that a call that does not want to wait does not.
bool IsUnixSocket(const FileDescriptor& fd, int type);

// False when the deadline passes.
bool AwaitReadable(int fd, Deadline deadline);

}  // namespace tutti::shm
