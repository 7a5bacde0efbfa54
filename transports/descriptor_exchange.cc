#include "transports/descriptor_exchange.h"

#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/error.h"

namespace tutti {
namespace {

constexpr std::size_t kMaxPerRank = 4;
constexpr Deadline::Milliseconds kLongestPoll = std::chrono::hours(24);  // poll() counts in int
constexpr std::size_t kMaxPerMessage = 128;                              // the kernel's SCM_MAX_FD is 253
constexpr std::size_t kWave = 100;  // Linux queues at least 128 connections (net.core.somaxconn, before 5.4)

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

[[noreturn]] void ThrowLeft(int rank) {
  Throw(tuttiRemoteError, "rank {} of this host left while shared memory was exchanged: its process ended or gave up",
        rank);
}

bool IsGone(int error_number) {
  return error_number == ECONNREFUSED || error_number == ECONNRESET || error_number == EPIPE;
}

// 0, or the error.
int Send(int socket, std::span<const std::byte> body, std::span<const int> fds) {
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
    if (errno != EINTR) return errno;
  }
  return 0;
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

bool IsReadable(int fd, Deadline deadline) {
  pollfd entry{fd, POLLIN, 0};
  for (;;) {
    const int ready = poll(&entry, 1, static_cast<int>(std::min(deadline.Left(), kLongestPoll).count()));
    if (ready >= 0) return ready > 0;
    if (errno != EINTR) ThrowErrno("poll");
  }
}

struct Member {
  FileDescriptor socket;
  std::vector<FileDescriptor> fds;
};

// The leader's side. Members come in waves, so that the kernel's queue holds all of a wave (see ExchangeDescriptors).
class Leader {
 public:
  Leader(std::vector<int> local, std::span<const int> mine)
      : local_(std::move(local)), mine_(mine.begin(), mine.end()), members_(local_.size()), listener_(UnixSocket()) {
    randombytes_buf(&invitation_, sizeof invitation_);
    const auto [address, length] = AbstractAddress(invitation_);
    if (bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
        listen(listener_.get(), SOMAXCONN) != 0) {
      ThrowErrno("listening on a Unix socket");
    }
  }

  const Invitation& invitation() const { return invitation_; }

  // Takes in who is in the queue. What a member has to say is there; who has not said it yet is a stranger.
  void Admit() {
    const auto now = Deadline::After(Deadline::Milliseconds::zero());
    while (IsReadable(listener_.get(), now)) {
      Member member{FileDescriptor(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)), {}};
      Greeting greeting{};
      if (!member.socket) {
        if (errno == ECONNABORTED || errno == EINTR) continue;
        ThrowErrno("accepting a connection on a Unix socket");
      }
      if (!IsReadable(member.socket.get(), now)) continue;
      if (!Receive(member.socket.get(), std::as_writable_bytes(std::span(&greeting, 1)), member.fds)) continue;
      if (sodium_memcmp(greeting.token.data(), invitation_.token.data(), greeting.token.size()) != 0) continue;
      const auto found = std::find(local_.begin(), local_.end(), greeting.rank);
      if (found == local_.end() || member.fds.size() != mine_.size()) continue;
      members_[static_cast<std::size_t>(found - local_.begin())] = std::move(member);
    }
  }

  // Gives everybody everybody's. A member that has died meanwhile is passed over: the ranks' next exchange names it.
  std::vector<std::vector<FileDescriptor>> Distribute() {
    std::vector<int> everyone(mine_);
    for (std::size_t i = 1; i < local_.size(); ++i) {
      if (!members_[i].socket) {
        Throw(tuttiSystemError, "rank {} of this host did not deliver its shared memory", local_[i]);
      }
      for (const auto& fd : members_[i].fds) everyone.push_back(fd.get());
    }
    for (std::size_t i = 1; i < local_.size(); ++i) {
      for (std::size_t sent = 0; sent < everyone.size(); sent += kMaxPerMessage) {
        const auto part =
            std::span<const int>(everyone).subspan(sent, std::min(kMaxPerMessage, everyone.size() - sent));
        const int error = Send(members_[i].socket.get(), BytesOf(invitation_), part);
        if (IsGone(error)) break;
        if (error != 0) ThrowSystem(fmt::format("sending descriptors to rank {} of this host", local_[i]), error);
      }
    }
    std::vector<std::vector<FileDescriptor>> result;
    for (auto& member : members_) result.push_back(std::move(member.fds));
    return result;
  }

 private:
  std::vector<int> local_;
  std::vector<int> mine_;
  std::vector<Member> members_;  // by place in local_; the first is the leader and stays empty
  FileDescriptor listener_;
  Invitation invitation_{};
};

// A member's side: hands over its own. Nothing if the leader has gone.
FileDescriptor Deliver(int rank, int leader, const Invitation& invitation, std::span<const int> mine) {
  FileDescriptor socket = UnixSocket();
  const auto [address, length] = AbstractAddress(invitation);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    if (IsGone(errno)) return {};
    ThrowErrno(fmt::format("reaching rank {} of this host over a Unix socket", leader));
  }
  Greeting greeting{};
  greeting.token = invitation.token;
  greeting.rank = rank;
  const int error = Send(socket.get(), BytesOf(greeting), mine);
  if (IsGone(error)) return {};
  if (error != 0) ThrowSystem(fmt::format("sending descriptors to rank {} of this host", leader), error);
  return socket;
}

// ... and takes everybody's.
std::vector<std::vector<FileDescriptor>> Collect(const FileDescriptor& socket, int rank, const std::vector<int>& local,
                                                 std::size_t per_rank, Deadline deadline) {
  const std::size_t expected = local.size() * per_rank;
  std::vector<FileDescriptor> everyone;
  while (everyone.size() < expected) {
    if (!IsReadable(socket.get(), deadline)) {
      Throw(tuttiTimeoutError, "rank {} of this host did not pass on the shared memory of its peers: it hangs",
            local.front());
    }
    Invitation echo{};
    if (!Receive(socket.get(), std::as_writable_bytes(std::span(&echo, 1)), everyone)) {
      ThrowLeft(local.front());
    }
  }
  std::vector<std::vector<FileDescriptor>> result(local.size());
  for (std::size_t i = 0; i < local.size(); ++i) {
    for (std::size_t j = 0; j < per_rank && local[i] != rank; ++j) {
      result[i].push_back(std::move(everyone[i * per_rank + j]));
    }
  }
  return result;
}

}  // namespace

std::vector<std::vector<FileDescriptor>> ExchangeDescriptors(int rank, const std::vector<int>& local,
                                                             std::span<const int> mine, const AllGather& all_gather,
                                                             Deadline deadline) {
  if (mine.size() > kMaxPerRank) Throw(tuttiInternalError, "too many descriptors: {}", mine.size());
  struct Opening {
    Invitation invitation;
    std::uint64_t members;  // of this rank's host
  };
  std::optional<Leader> leader;
  Opening opening{{}, local.size()};
  if (local.front() == rank && local.size() > 1) {
    leader.emplace(local, mine);
    opening.invitation = leader->invitation();
  }
  const auto all = all_gather(BytesOf(opening));
  std::uint64_t most = 0;
  Invitation invitation{};
  for (std::size_t r = 0; r < all.size(); ++r) {
    Opening theirs;
    if (all[r].size() != sizeof theirs) Throw(tuttiInternalError, "rank {} sent a malformed invitation", r);
    std::memcpy(&theirs, all[r].data(), sizeof theirs);
    most = std::max(most, theirs.members);
    if (static_cast<int>(r) == local.front()) invitation = theirs.invitation;
  }

  // Nobody waits on the Unix socket for a rank that may have died: a wave's members deliver into the kernel's queue,
  // and only when the control plane has heard of all of them does the leader look into it.
  const auto place = static_cast<std::size_t>(std::find(local.begin(), local.end(), rank) - local.begin());
  FileDescriptor delivered;
  for (std::size_t first = 1; first < most; first += kWave) {
    const bool mine_now = place >= first && place < first + kWave;
    if (mine_now) delivered = Deliver(rank, local.front(), invitation, mine);
    all_gather({});  // which also knows why the leader has gone, if it has
    if (mine_now && !delivered) ThrowLeft(local.front());
    if (leader) leader->Admit();
  }
  if (local.size() <= 1) return std::vector<std::vector<FileDescriptor>>(local.size());
  return leader ? leader->Distribute() : Collect(delivered, rank, local, mine.size(), deadline);
}

}  // namespace tutti
