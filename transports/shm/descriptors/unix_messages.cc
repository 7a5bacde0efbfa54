#include "transports/shm/descriptors/unix_messages.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/error.h"

namespace tutti::shm {
namespace {

constexpr Deadline::Milliseconds kRetry{1};

Received Receive(int socket, std::span<std::byte> body, std::vector<FileDescriptor>* fds) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxDescriptorsPerMessage * sizeof(int))> control{};
  iovec part{body.data(), body.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fds != nullptr) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }
  ssize_t got;
  do {
    got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) return Received::gone;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      fds->emplace_back(fd);
    }
  }
  if (static_cast<std::size_t>(got) != body.size() || (message.msg_flags & MSG_TRUNC) != 0) return Received::malformed;
  // The buffer has room for everything that may be sent. Only the limit on open descriptors can have refused the rest.
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    return fds != nullptr ? Received::no_descriptors_left : Received::malformed;
  }
  return Received::message;
}

}  // namespace

int SendMessage(int socket, std::span<const std::byte> body, std::span<const int> fds, Deadline deadline) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxDescriptorsPerMessage * sizeof(int))> control{};
  iovec part{const_cast<std::byte*>(body.data()), body.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  while (sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno == EINTR) continue;
    if ((errno != ETOOMANYREFS && errno != EAGAIN) || deadline.Passed()) return errno;
    std::this_thread::sleep_for(kRetry);
  }
  return 0;
}

Received ReceiveMessage(int socket, std::span<std::byte> body, std::vector<FileDescriptor>& fds) {
  return Receive(socket, body, &fds);
}

Received ReceiveMessage(int socket, std::span<std::byte> body) { return Receive(socket, body, nullptr); }

bool IsUnixSocket(const FileDescriptor& fd, int type) {
  const auto is = [&](int option, int wanted) {
    int value = 0;
    socklen_t size = sizeof value;
    return getsockopt(fd.get(), SOL_SOCKET, option, &value, &size) == 0 && value == wanted;
  };
  return is(SO_DOMAIN, AF_UNIX) && is(SO_TYPE, type);
}

bool AwaitReadable(int fd, Deadline deadline) {
  pollfd entry{fd, POLLIN, 0};
  for (Lookout lookout;;) {
    const int ready = poll(&entry, 1, static_cast<int>(std::min(deadline.Left(), Lookout::kLongestSleep).count()));
    lookout.Look();
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) ThrowErrno("poll");
    if (deadline.Passed()) return false;
  }
}

}  // namespace tutti::shm
