#include "bench/worker/control_socket.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <sstream>
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

// Precedes a message on a socket that does not keep messages whole. Ranks of one job have one byte order.
using Length = std::uint32_t;
constexpr Length kLongestMessage = 1U << 28;
// A rank on another host sends its number at once.
constexpr Milliseconds kTokenWait{2000};
constexpr std::size_t kMostStrangers = 64;  // connections that have not said the number; the oldest goes first

// In a time that does not tell where they differ. REQUIRES: equal lengths.
bool SameToken(const std::string& said, const std::string& token) {
  unsigned difference = 0;
  for (std::size_t i = 0; i < token.size(); ++i) difference |= static_cast<unsigned>(said[i] ^ token[i]);
  return difference == 0;
}

void SendAll(int fd, const void* data, std::size_t bytes) {
  for (const auto* from = static_cast<const std::byte*>(data); bytes > 0;) {
    const ssize_t sent = ::send(fd, from, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) ThrowErrno("cannot write to the control socket");
    from += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
}

void SendAtOnce(int fd) {
  const int one = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

// `place`: host, port and token, separated by spaces.
ControlSocket ConnectOverNetwork(const std::string& place) {
  std::istringstream words(place);
  std::string host, port, token;
  words >> host >> port >> token;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0) {
    throw std::runtime_error(
        fmt::format("cannot find the address of rank 0's host, {}: {}", host, ::gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    Descriptor socket(::socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket.valid() || ::connect(socket.get(), each->ai_addr, each->ai_addrlen) != 0) continue;
    SendAtOnce(socket.get());
    SendAll(socket.get(), token.data(), token.size());
    return ControlSocket(std::move(socket), false);
  }
  throw std::runtime_error(
      fmt::format("cannot reach the tutti-bench of rank 0 at {}:{}: {}", host, port, std::strerror(errno)));
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
  const std::size_t space = name.find(' ');
  Descriptor socket = MakeSocket();
  const Address address = AddressOf(name.substr(0, space));
  while (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.bytes), address.size) != 0) {
    if (errno == EINTR) continue;
    if (space != std::string::npos) return ConnectOverNetwork(name.substr(space + 1));
    ThrowErrno("cannot reach the tutti-bench process that started this rank");
  }
  return ControlSocket(std::move(socket));
}

void ControlSocket::Send(const Json& message) {
  std::vector<std::uint8_t> bytes = Json::to_cbor(message);
  if (!whole_) {
    std::array<std::uint8_t, sizeof(Length)> length;
    const auto size = static_cast<Length>(bytes.size());
    std::memcpy(length.data(), &size, sizeof size);
    bytes.insert(bytes.begin(), length.begin(), length.end());
  }
  SendAll(socket_.get(), bytes.data(), bytes.size());
}

// False: the other side hung up first.
bool ControlSocket::ReceiveExactly(void* data, std::size_t bytes) {
  for (auto* to = static_cast<std::byte*>(data); bytes > 0;) {
    const ssize_t got = ::recv(socket_.get(), to, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

std::optional<Json> ControlSocket::Receive() {
  if (!whole_) {
    Length size = 0;
    if (!ReceiveExactly(&size, sizeof size) || size > kLongestMessage) return std::nullopt;
    std::vector<std::uint8_t> bytes(size);
    if (!ReceiveExactly(bytes.data(), bytes.size())) return std::nullopt;
    return Json::from_cbor(bytes);
  }
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
  if (place == Place::network) ListenToNetwork();
}

void Listener::ListenToNetwork() {
  // Accepting never blocks: a connection may be gone before it is accepted.
  network_ = Descriptor(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool six = network_.valid();
  if (!six)
    network_ = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));  // a system without IPv6
  sockaddr_storage any{};
  any.ss_family = six ? AF_INET6 : AF_INET;
  const int no = 0;
  if (six) ::setsockopt(network_.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  socklen_t size = six ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (::bind(network_.get(), reinterpret_cast<const sockaddr*>(&any), size) != 0 ||
      ::listen(network_.get(), SOMAXCONN) != 0 ||
      ::getsockname(network_.get(), reinterpret_cast<sockaddr*>(&any), &size) != 0) {
    ThrowErrno("cannot listen for ranks of other hosts");
  }
  const auto port =
      six ? reinterpret_cast<const sockaddr_in6&>(any).sin6_port : reinterpret_cast<const sockaddr_in&>(any).sin_port;
  // torchrun's variable names rank 0's host; otherwise its own name must do.
  std::array<char, 256> own{};
  ::gethostname(own.data(), own.size() - 1);
  const char* const master = std::getenv("MASTER_ADDR");
  std::array<std::uint64_t, 2> secret{};
  if (::getrandom(secret.data(), sizeof secret, 0) != sizeof secret) ThrowErrno("getrandom");
  token_ = fmt::format("{:016x}{:016x}", secret[0], secret[1]);
  name_ += fmt::format(" {} {} {}", master != nullptr ? master : own.data(), ntohs(port), token_);
}

Listener::~Listener() {
  if (IsFile(name_)) ::unlink(name_.c_str());
}

std::optional<ControlSocket> Listener::Accept(Milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  for (;;) {
    auto until = deadline;
    std::vector<pollfd> entries = {{socket_.get(), POLLIN, 0}, {network_.get(), POLLIN, 0}};  // poll skips -1
    for (const auto& stranger : strangers_) {
      entries.push_back({stranger.socket.get(), POLLIN, 0});
      until = std::min(until, stranger.until);
    }
    const auto left = std::chrono::ceil<Milliseconds>(until - Clock::now());
    PollRetrying(entries.data(), entries.size(), static_cast<int>(std::max<long long>(0, left.count())));
    if (entries[0].revents != 0) return AcceptNeighbour();
    if (auto rank = HearStrangers(entries)) return rank;
    if (entries[1].revents != 0) AcceptStranger();
    if (Clock::now() >= deadline) return std::nullopt;
  }
}

std::optional<ControlSocket> Listener::AcceptNeighbour() {
  Descriptor accepted(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!accepted.valid()) ThrowErrno("accept");
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(accepted.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != ::getuid()) {
    return std::nullopt;
  }
  return ControlSocket(std::move(accepted));
}

void Listener::AcceptStranger() {
  Descriptor accepted(::accept4(network_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!accepted.valid()) return;
  SendAtOnce(accepted.get());
  if (strangers_.size() == kMostStrangers) strangers_.erase(strangers_.begin());
  strangers_.push_back({std::move(accepted), {}, Clock::now() + kTokenWait});
}

// `entries`: the listeners', then the strangers'. Puts out those who say something wrong, or nothing for too long.
std::optional<ControlSocket> Listener::HearStrangers(const std::vector<pollfd>& entries) {
  for (std::size_t i = strangers_.size(); i-- > 0;) {
    auto& stranger = strangers_[i];
    bool wrong = Clock::now() >= stranger.until;
    if (entries[i + 2].revents != 0) {
      std::array<char, 32> part;
      const auto room = std::min(part.size(), token_.size() - stranger.token.size());
      const ssize_t got = ::recv(stranger.socket.get(), part.data(), room, MSG_DONTWAIT);
      if (got > 0) stranger.token.append(part.data(), static_cast<std::size_t>(got));
      wrong = wrong || got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
    }
    const bool complete = stranger.token.size() == token_.size();
    if (!wrong && !complete) continue;
    std::optional<ControlSocket> rank;
    if (complete && SameToken(stranger.token, token_)) rank.emplace(std::move(stranger.socket), false);
    strangers_.erase(strangers_.begin() + static_cast<std::ptrdiff_t>(i));
    if (rank) return rank;
  }
  return std::nullopt;
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
