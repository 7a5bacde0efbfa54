// The rendezvous: a port and a background thread that serve one job's joining (rendezvous_state.h).
//
// It ends by itself: when every rank has been served, a while after joining failed or when no rank ever came, and at
// the latest when the process exits or unloads the library. A forked child does not have it. Thread-safety: the free
// functions may be called from any thread; a RendezvousServer belongs to one thread at a time, except finished().
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/clocks/deadline.h"
#include "base/settings/settings.h"
#include "net/socket.h"
#include "src/bootstrap/rendezvous/rendezvous_state.h"
#include "src/bootstrap/unique_id.h"

namespace tutti::bootstrap {

class RendezvousServer {
 public:
  // Serves the key's job on these listeners. Throws tuttiSystemError if it cannot start a thread.
  RendezvousServer(std::vector<net::Socket> listeners, const auth::SecretKey& rendezvous_key,
                   Deadline::Milliseconds patience);
  // Stops serving. Does not wait for ranks. In a forked child: leaves the parent's server alone.
  ~RendezvousServer();
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  const std::vector<net::SocketAddress>& addresses() const { return addresses_; }
  // The job has been served, or failed; its port is closed or soon will be.
  bool decided() const { return shared_->decided.load(std::memory_order_relaxed); }
  // The thread has nothing left to do, and the port is closed.
  bool finished() const { return shared_->finished.load(std::memory_order_acquire); }

 private:
  struct Shared {
    std::mutex mutex;                  // of `wake`
    net::Socket wake;                  // an eventfd: readable means stop; closed once the thread has nothing left to do
    std::atomic<bool> decided{false};  // relaxed: a hint that carries no data
    std::atomic<bool> finished{false};
  };
  static void Serve(const std::shared_ptr<Shared>& of_owner, RendezvousState rendezvous_state);

  std::vector<net::SocketAddress> addresses_;
  std::shared_ptr<Shared> shared_;  // shared by this object and its thread
  pid_t owner_;
};

// A rank's hold on a rendezvous that it has opened for others. Nobody may ever come there, because a rank fails before
// that, so it is closed with the hold, unless that was released.
class RendezvousHold {
 public:
  RendezvousHold() = default;
  explicit RendezvousHold(std::uint64_t number) : number_(number) {}
  RendezvousHold(RendezvousHold&& other) noexcept : number_(std::exchange(other.number_, 0)) {}
  RendezvousHold& operator=(RendezvousHold&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~RendezvousHold();
  // Ranks have come. The rendezvous tells them what happens, and ends by itself.
  void Release() { number_ = 0; }

 private:
  std::uint64_t number_ = 0;  // of a rendezvous of this process, which may have ended; 0: none
};

// For tuttiGetUniqueId: opens a rendezvous with a fresh secret on the addresses that the settings choose, and keeps it
// running in the background. Throws as ChooseAddresses, or tuttiSystemError. `hold`: null, or set to the rank's hold on it.
// `for_others`: the ticket leaves this library, so that joining takes TUTTI_SECRET, too, where it is set.
JoinTicket OpenRendezvous(const Settings& settings, RendezvousHold* hold = nullptr, bool for_others = false);

// For rank 0 of a job that meets at a known address (ticket.served_by_rank0): opens it there and returns addresses at
// which this process reaches it. Waits a few seconds for an earlier job to leave the port. Throws tuttiInvalidUsage
// naming the address if it is taken or not this machine's.
std::vector<net::SocketAddress> OpenRendezvousFor(const JoinTicket& ticket, const Settings& settings, Deadline deadline,
                                                  Cancellation cancel, RendezvousHold& hold);

}  // namespace tutti::bootstrap
