#include "bench/worker/control_socket.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

namespace tutti::bench {
namespace {

[[noreturn]] void ThrowErrno(const char* what) {
  throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

struct Address {
  sockaddr_un bytes{};
  socklen_t size = 0;
};

bool IsFile(const std::string& name) { return name.starts_with('/'); }

// A leading zero byte makes a name abstract.
Address AddressOf(const std::string& name) {
  Address address;
  address.bytes.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof address.bytes.sun_path) throw std::runtime_error("control name is too long");
  std::memcpy(address.bytes.sun_path + (IsFile(name) ? 0 : 1), name.data(), name.size());
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

Descriptor MakeSocket() {
  // SOCK_SEQPACKET keeps messages whole, so that no framing is needed.
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket.valid()) ThrowErrno("cannot make a control socket");
  return socket;
}

int PollRetrying(pollfd* fds, nfds_t count, int timeout_ms) {
  const auto deadline = std::chrono::steady_clock::now() + Milliseconds(timeout_ms);
  for (;;) {
    const int ready = ::poll(fds, count, timeout_ms);
    if (ready >= 0) return ready;
    if (errno != EINTR) ThrowErrno("poll");
    if (timeout_ms >= 0) {
      const auto left = std::chrono::duration_cast<Milliseconds>(deadline - std::chrono::steady_clock::now());
      timeout_ms = static_cast<int>(std::max<long long>(0, left.count()));
    }
  }
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    if (valid()) ::close(fd_);
    fd_ = other.Release();
  }
  return *this;
}

Descriptor::~Descriptor() {
  if (valid()) ::close(fd_);
}

int Descriptor::Release() { return std::exchange(fd_, -1); }

ControlSocket ControlSocket::Connect(const std::string& name) {
  Descriptor socket = MakeSocket();
  const Address address = AddressOf(name);
  while (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.bytes), address.size) != 0) {
    if (errno != EINTR) ThrowErrno("cannot reach the tutti-bench process that started this rank");
  }
  return ControlSocket(std::move(socket));
}

void ControlSocket::Send(const Json& message) {
  const std::vector<std::uint8_t> bytes = Json::to_cbor(message);
  while (::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) ThrowErrno("cannot write to the control socket");
  }
}

std::optional<Json> ControlSocket::Receive() {
  for (;;) {
    // A peeked length of 0 means the end, because messages are never empty.
    const ssize_t size = ::recv(socket_.get(), nullptr, 0, MSG_PEEK | MSG_TRUNC);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return std::nullopt;
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(size));
    if (::recv(socket_.get(), bytes.data(), bytes.size(), 0) != size) return std::nullopt;
    return Json::from_cbor(bytes);
  }
}

void ControlSocket::WaitForHangUp() const {
  pollfd entry{socket_.get(), 0, 0};  // POLLHUP is always reported
  PollRetrying(&entry, 1, -1);
}

Listener::Listener(Place place) : socket_(MakeSocket()) {
  std::uint64_t secret[2];
  if (::getrandom(secret, sizeof secret, 0) != sizeof secret) ThrowErrno("getrandom");
  name_ = fmt::format("tutti-bench-{}-{:016x}{:016x}", ::getpid(), secret[0], secret[1]);
  if (place == Place::file) name_ = std::filesystem::temp_directory_path() / name_;
  const Address address = AddressOf(name_);
  if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address.bytes), address.size) != 0) {
    ThrowErrno("cannot name the control socket");
  }
  if (::listen(socket_.get(), SOMAXCONN) != 0) ThrowErrno("cannot listen on the control socket");
}

Listener::~Listener() {
  if (IsFile(name_)) ::unlink(name_.c_str());
}

std::optional<ControlSocket> Listener::Accept(Milliseconds timeout) {
  pollfd entry{socket_.get(), POLLIN, 0};
  if (PollRetrying(&entry, 1, static_cast<int>(timeout.count())) == 0) return std::nullopt;
  Descriptor accepted(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!accepted.valid()) ThrowErrno("accept");
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(accepted.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != ::getuid()) {
    return std::nullopt;
  }
  return ControlSocket(std::move(accepted));
}

std::vector<std::size_t> WaitForAny(const std::vector<const ControlSocket*>& sockets, Milliseconds timeout) {
  std::vector<pollfd> entries;
  for (const ControlSocket* socket : sockets) entries.push_back({socket->fd(), POLLIN, 0});
  PollRetrying(entries.data(), entries.size(), static_cast<int>(timeout.count()));
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].revents != 0) ready.push_back(i);
  }
  return ready;
}

}  // namespace tutti::bench
