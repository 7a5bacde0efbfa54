#include "transports/shm/descriptors/descriptor_door.h"

#include <fmt/ranges.h>
#include <poll.h>
#include <sodium.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <system_error>

#include "base/error.h"
#include "base/log.h"
#include "base/threads/quiet_thread.h"
#include "net/peer_user.h"
#include "transports/shm/descriptors/unix_messages.h"

namespace tutti::shm {
namespace {

constexpr std::size_t kMaxSilent = 64;  // connections that have not said who they are; the oldest is evicted
constexpr Deadline::Milliseconds kPause{2};
constexpr Deadline::Milliseconds kExhaustedPause{10};

struct Greeting {
  std::array<unsigned char, 32> token;
  std::int32_t rank;
};

constexpr std::uint32_t kWelcome = 0x77656c63;

std::pair<sockaddr_un, socklen_t> AbstractAddress(const Invitation& invitation) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto name = fmt::format("tutti-{:02x}", fmt::join(invitation.name, ""));
  // A leading zero byte makes the name abstract.
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

FileDescriptor UnixSocket() {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) ThrowErrno("cannot create a Unix socket");
  return socket;
}

template <typename T>
std::span<const std::byte> BytesOf(const T& value) {
  return std::as_bytes(std::span<const T, 1>(&value, 1));
}

template <typename T>
std::span<std::byte> RoomOf(T& value) {
  return std::as_writable_bytes(std::span<T, 1>(&value, 1));
}

}  // namespace

DescriptorDoor::DescriptorDoor(std::vector<int> expected)
    : expected_(std::move(expected)), listener_(UnixSocket()), stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!stop_) ThrowErrno("eventfd");
  randombytes_buf(&invitation_, sizeof invitation_);
  const auto [address, length] = AbstractAddress(invitation_);
  if (bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(listener_.get(), SOMAXCONN) != 0) {
    ThrowErrno("cannot listen on a Unix socket");
  }
  try {
    thread_ = std::make_unique<std::thread>(QuietThread(&DescriptorDoor::TakeIn, this));
  } catch (const std::system_error& error) {
    ThrowSystem("cannot start the thread that accepts the ranks of this host", error.code().value());
  }
}

DescriptorDoor::~DescriptorDoor() { Close(); }

std::map<int, FileDescriptor> DescriptorDoor::Close() {
  if (thread_ != nullptr) {
    eventfd_write(stop_.get(), 1);
    thread_->join();
    thread_.reset();
  }
  return std::move(members_);
}

void DescriptorDoor::TakeIn() {
  std::deque<FileDescriptor> silent;
  bool exhausted = false;
  std::vector<pollfd> fds;
  for (;;) {
    fds.assign({{stop_.get(), POLLIN, 0}, {listener_.get(), static_cast<short>(exhausted ? 0 : POLLIN), 0}});
    for (const auto& one : silent) fds.push_back({one.get(), POLLIN, 0});
    if (poll(fds.data(), fds.size(), exhausted ? static_cast<int>(kExhaustedPause.count()) : -1) < 0) continue;
    if (fds[0].revents != 0) return;
    for (std::size_t i = silent.size(); i-- > 0;) {
      if (fds[i + 2].revents == 0) continue;
      Admit(std::move(silent[i]));
      silent.erase(silent.begin() + static_cast<std::ptrdiff_t>(i));
    }
    exhausted = false;
    if (fds[1].revents == 0) continue;
    FileDescriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      exhausted = errno != EAGAIN && errno != ECONNABORTED && errno != EINTR;
      continue;
    }
    if (const auto user = net::UserOfUnixPeer(socket.get()); !user.taken()) {
      Log(Subject::init, "a connection to this host's ranks was closed without being read: {}", user.why);
      continue;
    }
    if (silent.size() == kMaxSilent) silent.pop_front();
    silent.push_back(std::move(socket));
  }
}

void DescriptorDoor::Admit(FileDescriptor socket) {
  Greeting greeting{};
  if (ReceiveMessage(socket.get(), RoomOf(greeting)) != Received::message) return;
  if (sodium_memcmp(greeting.token.data(), invitation_.token.data(), greeting.token.size()) != 0) return;
  if (std::find(expected_.begin(), expected_.end(), greeting.rank) == expected_.end()) return;
  const auto at_once = Deadline::After(Deadline::Milliseconds::zero());
  if (SendMessage(socket.get(), BytesOf(kWelcome), {}, at_once) == 0) members_[greeting.rank] = std::move(socket);
}

FileDescriptor Knock(const Invitation& invitation, int rank, int host, Deadline deadline) {
  const auto [address, length] = AbstractAddress(invitation);
  const auto too_late = [&](std::string_view why) {
    Throw(tuttiTimeoutError, "rank {} of this host does not accept rank {}: {}", host, rank, why);
  };
  for (;; std::this_thread::sleep_for(kPause)) {
    FileDescriptor socket = UnixSocket();
    if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
      if (errno == ECONNREFUSED) return {};
      if (errno != EAGAIN && errno != EINTR) ThrowErrno(fmt::format("cannot reach rank {} over a Unix socket", host));
      if (deadline.Passed()) too_late("other connections fill the queue of its socket");
      continue;
    }
    if (const auto user = net::UserOfUnixPeer(socket.get()); !user.taken()) {
      Throw(tuttiInvalidUsage, "rank {} does not share memory with rank {} of this host: {}", rank, host, user.why);
    }
    const Greeting greeting{invitation.token, rank};
    if (SendMessage(socket.get(), BytesOf(greeting), {}, deadline) == 0) {
      if (!AwaitReadable(socket.get(), deadline)) too_late("it does not answer");
      std::uint32_t answer = 0;
      if (ReceiveMessage(socket.get(), RoomOf(answer)) == Received::message && answer == kWelcome) return socket;
    }
    // The connection was evicted to make room for others, or refused. If its process is gone, the next knock fails.
    if (deadline.Passed()) too_late("it keeps closing the connection");
  }
}

}  // namespace tutti::shm
