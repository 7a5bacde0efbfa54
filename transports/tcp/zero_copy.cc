#include "transports/tcp/zero_copy.h"

#include <linux/errqueue.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace tutti::tcp {
namespace {

// The kernel's documentation says that it pays from about 10 KB on; half a bulk slot's usual chunk is well beyond.
constexpr std::size_t kWorth = 32 * 1024;

}  // namespace

ZeroCopySends::ZeroCopySends(const net::Socket& socket, Mode mode) : mode_(mode) {
  const int on = 1;
  if (mode != Mode::off && setsockopt(socket.fd(), SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on) != 0) mode_ = Mode::off;
}

bool ZeroCopySends::IsWorth(std::size_t bytes) const { return mode_ != Mode::off && bytes >= kWorth; }

ssize_t ZeroCopySends::Send(const net::Socket& socket, const progress::SlotMessage& slot, const std::byte* data,
                            std::size_t bytes) {
  constexpr int kFlags = MSG_DONTWAIT | MSG_NOSIGNAL;
  const auto sent = send(socket.fd(), data, bytes, kFlags | MSG_ZEROCOPY);
  // The limit of locked memory or pending notices is reached, or only a device's driver may lock this memory.
  if (sent < 0 && (errno == ENOBUFS || errno == EFAULT)) return send(socket.fd(), data, bytes, kFlags);
  if (sent <= 0) return sent;
  if (lent_.empty() || lent_.back().complete) lent_.push_back({slot.connection, slot.number, calls_});
  ++lent_.back().calls;
  ++calls_;
  return sent;
}

bool ZeroCopySends::Lend() {
  if (lent_.empty() || lent_.back().complete) return false;
  lent_.back().complete = true;
  if (!lent_.back().free()) return true;
  lent_.pop_back();
  return false;
}

void ZeroCopySends::Answered(std::uint32_t first, std::uint32_t last) {
  const std::uint32_t count = last - first + 1;
  for (auto& lent : lent_) {
    // Counts those of [first, first + count) that are its own. Numbers wrap, so all is relative to its first.
    for (std::uint32_t i = 0; i < count; ++i) lent.answers += first + i - lent.first < lent.calls;
  }
}

bool ZeroCopySends::Reap(const net::Socket& socket, int peer, progress::NetworkTransportEvents& events) {
  bool any = false;
  for (;;) {
    alignas(cmsghdr) std::array<std::byte, 128> control;
    msghdr message{};
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    if (recvmsg(socket.fd(), &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) break;
    // Every report has this flag. qemu-user returns 0 from an empty queue, without it.
    if ((message.msg_flags & MSG_ERRQUEUE) == 0) break;
    for (auto* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
      sock_extended_err news;
      if (header->cmsg_len < CMSG_LEN(sizeof news)) continue;
      std::memcpy(&news, CMSG_DATA(header), sizeof news);
      if (news.ee_origin != SO_EE_ORIGIN_ZEROCOPY) continue;
      any = true;
      Answered(news.ee_info, news.ee_data);
      if ((news.ee_code & SO_EE_CODE_ZEROCOPY_COPIED) != 0 && mode_ == Mode::useful) mode_ = Mode::off;
    }
  }
  std::erase_if(lent_, [&](const Lent& lent) {
    if (!lent.free()) return false;
    events.Sent(peer, lent.connection, lent.number);
    return true;
  });
  return any;
}

}  // namespace tutti::tcp
