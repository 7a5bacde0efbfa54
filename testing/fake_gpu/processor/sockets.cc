#include "testing/fake_gpu/processor/sockets.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace tutti::fake_gpu {
namespace {

// Room for the control message with one descriptor.
union Control {
  char bytes[CMSG_SPACE(sizeof(int))];
  cmsghdr aligned;
};

}  // namespace

bool SendMessage(int socket, std::span<const std::span<const std::byte>> pieces, int file) {
  std::vector<iovec> vectors;
  for (const auto piece : pieces) vectors.push_back({const_cast<std::byte*>(piece.data()), piece.size()});
  msghdr message{};
  message.msg_iov = vectors.data();
  message.msg_iovlen = vectors.size();
  Control control{};
  if (file >= 0) {
    message.msg_control = &control;
    message.msg_controllen = sizeof control;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof file);
    std::memcpy(CMSG_DATA(header), &file, sizeof file);
  }
  ssize_t sent;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent >= 0;
}

std::size_t ReceiveMessage(int socket, std::span<std::byte> to, int* file) {
  iovec vector{to.data(), to.size()};
  Control control{};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = &control;
  message.msg_controllen = sizeof control;
  ssize_t got;
  do {
    got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (file != nullptr) *file = -1;
  const cmsghdr* const header = got > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS && file != nullptr) {
    std::memcpy(file, CMSG_DATA(header), sizeof *file);
  }
  return got > 0 ? static_cast<std::size_t>(got) : 0;
}

}  // namespace tutti::fake_gpu
