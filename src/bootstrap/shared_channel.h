// A proven connection between two ranks' processes that several control planes share: that of the communicator whose
// ranks met through it, and those of communicators that were split from it. So further communicators of the same ranks
// cost no descriptor. Each control plane has a Subchannel, which behaves like a connection of its own.
//
// Whoever reads from the connection passes on what is for others, and wakes those that wait (AwaitFrames). A rank may
// receive a frame before it has opened the subchannel: why the other end has closed it.
//
// Thread-safety: each Subchannel belongs to one thread at a time; different ones may be used from different threads.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/clocks/deadline.h"
#include "base/threads/cancellation.h"
#include "net/auth/channel.h"

namespace tutti::bootstrap {

class SharedChannel {
 public:
  explicit SharedChannel(auth::SecureChannel channel);
  // Ends the connection. In a forked child: leaves the parent's alone.
  ~SharedChannel();
  SharedChannel(const SharedChannel&) = delete;
  SharedChannel& operator=(const SharedChannel&) = delete;

  // Whether the other end has ended the connection, as far as that has arrived.
  bool closed();

 private:
  friend class Subchannel;

  struct Inbox {
    std::deque<std::vector<std::byte>> frames;
    std::size_t bytes = 0;      // of all frames
    bool was_open = false;      // at this end; otherwise it came early
    bool open = false;          // at this end
    bool gone = false;          // at this end there is no Subchannel any more
    bool closed_there = false;  // at the other end
    int waker = -1;             // an eventfd of the thread that waits for a frame; -1: none does
  };

  void Open(std::uint64_t number);
  void Close(std::uint64_t number);
  void Forget(std::uint64_t number);
  void Send(std::uint64_t number, std::span<const std::byte> payload);
  // Sends what the socket takes, and passes on what has arrived.
  void Advance();
  void PassOn(std::span<const std::byte> frame);

  const pid_t owner_;
  std::mutex mutex_;  // of all that follows
  auth::SecureChannel channel_;
  std::map<std::uint64_t, Inbox> inboxes_;  // by subchannel
  std::deque<std::uint64_t> early_;         // those of subchannels that were never open here, oldest first
  std::optional<std::uint64_t> full_;       // whose frames must be read first
};

// The functions do what those of SecureChannel do.
class Subchannel {
 public:
  // The first subchannel of a connection, for the ranks that met through it.
  static constexpr std::uint64_t kFirst = 0;

  // `number`: the same at both ends, and fresh.
  Subchannel(std::shared_ptr<SharedChannel> shared, std::uint64_t number);
  Subchannel(Subchannel&& other) noexcept = default;
  Subchannel& operator=(Subchannel&& other) noexcept = delete;
  ~Subchannel();

  void Queue(std::span<const std::byte> payload);
  void Flush();
  bool sending() const;
  std::optional<std::vector<std::byte>> Receive();
  bool closed() const;
  // Whether something has been passed on to this one: a frame, or its end.
  bool waiting() const;
  // Whether the other end has closed this one, though there may be frames from before. Takes in what has arrived.
  bool left();
  pollfd Watch() const;
  int fd() const;
  // Tells the other end that this one is closed. What it has sent before still arrives.
  void Shutdown();

  const std::shared_ptr<SharedChannel>& shared() const { return shared_; }

 private:
  friend net::Wake AwaitFrames(std::span<Subchannel* const>, std::vector<pollfd>&, Deadline, Cancellation);

  SharedChannel::Inbox& inbox() const;
  // Sets the waker. False if something is waiting already.
  bool Expect(int waker);

  std::shared_ptr<SharedChannel> shared_;  // null: moved from
  std::uint64_t number_;
};

// As net::Wait; also returns `event` when another thread has passed something on to one of these subchannels, and now and
// then without a reason. `fds` should hold what Watch() gives for them.
net::Wake AwaitFrames(std::span<Subchannel* const> channels, std::vector<pollfd>& fds, Deadline deadline,
                      Cancellation cancel);

// A rank's connections to other ranks of the communicator in which they first met, and of those split from it.
//
// Thread-safety: all members, from any thread.
class SharedChannels {
 public:
  // The connection to that rank of the first communicator; null: there is none any more.
  std::shared_ptr<SharedChannel> Find(int rank);
  // Keeps an earlier one, if it is still open.
  void Add(int rank, const std::shared_ptr<SharedChannel>& channel);

 private:
  std::mutex mutex_;
  std::map<int, std::shared_ptr<SharedChannel>> channels_;
};

}  // namespace tutti::bootstrap
