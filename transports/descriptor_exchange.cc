#include "transports/descriptor_exchange.h"

#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>

#include "base/error.h"

namespace tutti {
namespace {

constexpr std::size_t kMaxPerRank = 4;
constexpr Deadline::Milliseconds kLongestPoll = std::chrono::hours(24);  // poll() counts in int
constexpr std::size_t kMaxPerMessage = 128;                              // the kernel's SCM_MAX_FD is 253

struct Invitation {  // leader -> everybody, over the control plane
  std::array<unsigned char, 16> name;
  std::array<unsigned char, 32> token;
};
struct Greeting {  // member -> leader, with the member's descriptors
  std::array<unsigned char, 32> token;
  std::int32_t rank;
};

template <typename T>
std::span<const std::byte> BytesOf(const T& value) {
  return std::as_bytes(std::span<const T, 1>(&value, 1));
}

std::pair<sockaddr_un, socklen_t> AbstractAddress(const Invitation& invitation) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto name = fmt::format("tutti-{:02x}", fmt::join(invitation.name, ""));
  // A leading zero byte makes the name abstract.
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

FileDescriptor UnixSocket() {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) ThrowErrno("creating a Unix socket");
  return socket;
}

bool WaitReadable(int fd, Deadline deadline) {
  pollfd entry{fd, POLLIN, 0};
  for (;;) {
    const int ready = poll(&entry, 1, static_cast<int>(std::min(deadline.Left(), kLongestPoll).count()));
    if (ready > 0) return true;
    if (ready == 0) return false;
    if (errno != EINTR) ThrowErrno("poll");
  }
}

[[noreturn]] void ThrowLeft(int rank, int error_number) {
  Throw(tuttiRemoteError,
        "rank {} of this host left while shared memory was exchanged: its process ended or gave up ({})", rank,
        std::strerror(error_number));
}

bool IsGone(int error_number) {
  return error_number == ECONNREFUSED || error_number == ECONNRESET || error_number == EPIPE;
}

void Send(int socket, int rank, std::span<const std::byte> body, std::span<const int> fds) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxPerMessage * sizeof(int))> control{};
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
  while (sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
    if (IsGone(errno)) ThrowLeft(rank, errno);
    if (errno != EINTR) ThrowErrno(fmt::format("sending descriptors to rank {} of this host", rank));
  }
}

// One message into `body`; false if it is not whole or not of that size. Descriptors that came are always owned.
bool Receive(int socket, std::span<std::byte> body, std::vector<FileDescriptor>& fds) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxPerMessage * sizeof(int))> control{};
  iovec part{body.data(), body.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got;
  do {
    got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return false;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
  return static_cast<std::size_t>(got) == body.size() && (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
}

struct Member {
  std::size_t place;  // in `local`
  FileDescriptor socket;
  std::vector<FileDescriptor> fds;
};

std::optional<Member> Admit(FileDescriptor socket, const Invitation& invitation, const std::vector<int>& local,
                            std::size_t per_rank, Deadline deadline) {
  Greeting greeting{};
  Member member{0, std::move(socket), {}};
  // A stranger who connects and says nothing may hold the others up for this long, once.
  constexpr Deadline::Milliseconds kPatience{1000};
  if (!WaitReadable(member.socket.get(), std::min(deadline, Deadline::After(kPatience)))) return std::nullopt;
  if (!Receive(member.socket.get(), std::as_writable_bytes(std::span(&greeting, 1)), member.fds)) return std::nullopt;
  if (sodium_memcmp(greeting.token.data(), invitation.token.data(), greeting.token.size()) != 0) return std::nullopt;
  const auto found = std::find(local.begin(), local.end(), greeting.rank);
  if (found == local.end() || member.fds.size() != per_rank) return std::nullopt;
  member.place = static_cast<std::size_t>(found - local.begin());
  return member;
}

std::vector<std::vector<FileDescriptor>> Lead(const FileDescriptor& listener, const Invitation& invitation,
                                              const std::vector<int>& local, std::span<const int> mine,
                                              Deadline deadline) {
  std::vector<std::optional<Member>> members(local.size());
  for (std::size_t missing = local.size() - 1; missing > 0;) {
    if (!WaitReadable(listener.get(), deadline)) {
      std::vector<int> absent;
      for (std::size_t i = 1; i < local.size(); ++i) {
        if (!members[i]) absent.push_back(local[i]);
      }
      Throw(tuttiTimeoutError, "ranks {} of this host did not come to exchange shared memory", fmt::join(absent, ", "));
    }
    FileDescriptor socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) continue;
    auto member = Admit(std::move(socket), invitation, local, mine.size(), deadline);
    if (!member || members[member->place]) continue;
    const auto place = member->place;
    members[place] = std::move(member);
    --missing;
  }
  std::vector<int> everyone(mine.begin(), mine.end());
  for (std::size_t i = 1; i < local.size(); ++i) {
    for (const auto& fd : members[i]->fds) everyone.push_back(fd.get());
  }
  for (std::size_t i = 1; i < local.size(); ++i) {
    for (std::size_t sent = 0; sent < everyone.size(); sent += kMaxPerMessage) {
      const auto part = std::span<const int>(everyone).subspan(sent, std::min(kMaxPerMessage, everyone.size() - sent));
      Send(members[i]->socket.get(), local[i], BytesOf(invitation), part);
    }
  }
  std::vector<std::vector<FileDescriptor>> result(local.size());
  for (std::size_t i = 1; i < local.size(); ++i) result[i] = std::move(members[i]->fds);
  return result;
}

std::vector<std::vector<FileDescriptor>> Follow(int rank, const Invitation& invitation, const std::vector<int>& local,
                                                std::span<const int> mine, Deadline deadline) {
  const FileDescriptor socket = UnixSocket();
  const auto [address, length] = AbstractAddress(invitation);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    if (IsGone(errno)) ThrowLeft(local.front(), errno);
    ThrowErrno(fmt::format("reaching rank {} of this host over a Unix socket", local.front()));
  }
  Greeting greeting{};
  greeting.token = invitation.token;
  greeting.rank = rank;
  Send(socket.get(), local.front(), BytesOf(greeting), mine);
  const std::size_t expected = local.size() * mine.size();
  std::vector<FileDescriptor> everyone;
  while (everyone.size() < expected) {
    if (!WaitReadable(socket.get(), deadline)) {
      Throw(tuttiTimeoutError,
            "rank {} of this host did not pass on the shared memory of its peers: it hangs, or waits for one that has "
            "ended",
            local.front());
    }
    Invitation echo{};
    if (!Receive(socket.get(), std::as_writable_bytes(std::span(&echo, 1)), everyone)) {
      ThrowLeft(local.front(), ECONNRESET);
    }
  }
  std::vector<std::vector<FileDescriptor>> result(local.size());
  for (std::size_t i = 0; i < local.size(); ++i) {
    for (std::size_t j = 0; j < mine.size() && local[i] != rank; ++j) {
      result[i].push_back(std::move(everyone[i * mine.size() + j]));
    }
  }
  return result;
}

}  // namespace

std::vector<std::vector<int>> GroupByHost(const AllGather& all_gather) {
  struct stat network {};
  if (stat("/proc/self/ns/net", &network) != 0) ThrowErrno("reading /proc/self/ns/net");
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  const std::string identity = fmt::format("{} {}:{}", boot, network.st_dev, network.st_ino);
  const auto all = all_gather(std::as_bytes(std::span(identity)));
  std::vector<std::vector<int>> groups(all.size());
  for (std::size_t r = 0; r < all.size(); ++r) {
    for (std::size_t q = 0; q < all.size(); ++q) {
      if (all[q] == all[r]) groups[r].push_back(static_cast<int>(q));
    }
  }
  return groups;
}

std::vector<std::vector<FileDescriptor>> ExchangeDescriptors(int rank, const std::vector<int>& local,
                                                             std::span<const int> mine, const AllGather& all_gather,
                                                             Deadline deadline) {
  if (mine.size() > kMaxPerRank) Throw(tuttiInternalError, "too many descriptors: {}", mine.size());
  const bool leads = local.front() == rank;
  Invitation invitation{};
  FileDescriptor listener;
  if (leads && local.size() > 1) {
    randombytes_buf(&invitation, sizeof invitation);
    listener = UnixSocket();
    const auto [address, length] = AbstractAddress(invitation);
    if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
        listen(listener.get(), SOMAXCONN) != 0) {
      ThrowErrno("listening on a Unix socket");
    }
  }
  const auto all = all_gather(BytesOf(invitation));
  if (local.size() <= 1) return std::vector<std::vector<FileDescriptor>>(local.size());
  if (leads) return Lead(listener, invitation, local, mine, deadline);
  const auto& theirs = all[static_cast<std::size_t>(local.front())];
  if (theirs.size() != sizeof invitation)
    Throw(tuttiInternalError, "rank {} sent a malformed invitation", local.front());
  std::memcpy(&invitation, theirs.data(), sizeof invitation);
  return Follow(rank, invitation, local, mine, deadline);
}

}  // namespace tutti
