#include "src/bootstrap/rendezvous/rendezvous.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <system_error>

#include "base/error.h"
#include "base/log.h"
#include "base/process_mark.h"
#include "base/threads/quiet_thread.h"
#include "net/auth/dial.h"
#include "net/interfaces.h"
#include "src/bootstrap/job_secret.h"

namespace tutti::bootstrap {
namespace {

constexpr Deadline::Milliseconds kPortPatience = std::chrono::seconds(5);
constexpr Deadline::Milliseconds kPortRetry{20};

// Owns this process's background servers.
class Background {
 public:
  RendezvousHold Keep(std::unique_ptr<RendezvousServer> server) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(servers_, [](const auto& one) { return one.second->finished(); });
    servers_.emplace(++newest_, std::move(server));
    return RendezvousHold(newest_);
  }
  void Close(std::uint64_t number) {
    const std::scoped_lock lock(mutex_);
    servers_.erase(number);
  }
  // A failed job's server stays for late ranks, but a new attempt by its process takes precedence.
  void RetireDecided() {
    const std::scoped_lock lock(mutex_);
    std::erase_if(servers_, [](const auto& one) { return one.second->decided(); });
  }

 private:
  std::mutex mutex_;
  std::uint64_t newest_ = 0;
  std::map<std::uint64_t, std::unique_ptr<RendezvousServer>> servers_;  // by number
};

// One per process, as the rendezvous of tuttiGetUniqueId belongs to no other object. A forked child gets its own: it
// lacks the parent's threads, and the mutex may be locked forever. Never destroyed: other threads may still join while
// the process exits.
Background& ThisProcess() {
  struct Owned {
    const Birthmark birthmark;
    Background background;
  };
  static std::atomic<Owned*> current{nullptr};
  auto* owned = current.load(std::memory_order_acquire);
  if (owned != nullptr && owned->birthmark.OfThisProcess()) return owned->background;
  auto fresh = std::make_unique<Owned>();
  // If another thread was faster, its object is used. The parent's object stays unchanged.
  if (current.compare_exchange_strong(owned, fresh.get(), std::memory_order_acq_rel)) owned = fresh.release();
  return owned->background;
}

std::vector<net::Socket> ListenEverywhere(std::uint16_t port, std::string_view family, int& error) {
  for (const bool v6 : {true, false}) {
    if (v6 ? family == "inet" : family == "inet6") continue;
    auto listeners = net::ListenOn({net::SocketAddress::Wildcard(v6, port)}, error);
    if (!listeners.empty() || error == EADDRINUSE) return listeners;
  }
  return {};
}

std::vector<net::Socket> ListenFor(const JoinTicket& ticket, const Settings& settings, int& error) {
  if (!ticket.listen_everywhere) {
    auto listeners = net::ListenOn(ticket.addresses, error);
    // Other hosts reach this machine by an address that it does not have itself: a service's, a router's.
    if (!listeners.empty() || error != EADDRNOTAVAIL || ticket.StaysOnLoopback()) return listeners;
  }
  return ListenEverywhere(ticket.addresses.front().port, settings.socket_family, error);
}

}  // namespace

RendezvousServer::RendezvousServer(std::vector<net::Socket> listeners, const auth::SecretKey& rendezvous_key,
                                   Deadline::Milliseconds patience)
    : shared_(std::make_shared<Shared>()), owner_(getpid()) {
  for (const auto& listener : listeners) addresses_.push_back(net::LocalAddress(listener));
  shared_->wake = net::Socket(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!shared_->wake) ThrowErrno("cannot make an eventfd for the rendezvous");
  RendezvousState rendezvous_state(
      auth::HandshakePool(std::move(listeners), rendezvous_key, auth::Purpose::rendezvous, auth::kCentre), patience);
  try {
    // Detached because its owner is never destroyed: a thread sanitizer would report it as leaked.
    QuietThread(&Serve, shared_, std::move(rendezvous_state)).detach();
  } catch (const std::system_error& error) {
    ThrowSystem("cannot start the rendezvous' thread", error.code().value());
  }
}

RendezvousServer::~RendezvousServer() {
  if (getpid() != owner_) return;  // the thread lives in the parent only
  {
    const std::scoped_lock lock(shared_->mutex);
    if (shared_->wake) eventfd_write(shared_->wake.fd(), 1);
  }
  shared_->finished.wait(false, std::memory_order_acquire);
}

void RendezvousServer::Serve(const std::shared_ptr<Shared>& of_owner, RendezvousState rendezvous_state) {
  auto& shared = *of_owner;
  pthread_setname_np(pthread_self(), "tutti-join");
  try {
    std::vector<pollfd> fds;
    while (!rendezvous_state.done()) {
      fds.assign(1, {shared.wake.fd(), POLLIN, 0});
      rendezvous_state.Watch(fds);
      net::Wait(fds, rendezvous_state.NextDeadline());
      if (fds[0].revents != 0) break;
      rendezvous_state.Advance(std::span<const pollfd>(fds).subspan(1));
      if (rendezvous_state.decided()) shared.decided.store(true, std::memory_order_relaxed);
    }
  } catch (const std::exception& error) {
    // No caller can catch this. The ranks see the rendezvous close.
    Log(Subject::init, "rendezvous: {}", error.what());
  }
  rendezvous_state.Close();
  {
    // The owner may keep this object for long.
    const std::scoped_lock lock(shared.mutex);
    shared.wake.Close();
  }
  // Release: an owner that waits for `finished` also sees the port closed.
  shared.finished.store(true, std::memory_order_release);
  shared.finished.notify_all();
}

RendezvousHold::~RendezvousHold() {
  if (number_ != 0) ThisProcess().Close(number_);
}

JoinTicket OpenRendezvous(const Settings& settings, RendezvousHold* hold, bool for_others) {
  JoinTicket ticket;
  ticket.needs_job_secret = for_others && !settings.secret.empty();
  ticket.secret = auth::SecretKey::Random();
  randombytes_buf(ticket.job.data(), ticket.job.size());
  auto addresses = net::ChooseAddresses(net::LocalInterfaces(), settings.socket_ifname, settings.socket_family);
  int error = 0;
  auto listeners = net::ListenOn(addresses, error);
  if (listeners.empty()) ThrowSystem(fmt::format("cannot listen on {}", net::TextOf(addresses)), error);
  auto server = std::make_unique<RendezvousServer>(
      std::move(listeners), RendezvousKey(WithJobSecret(ticket, settings.secret)), settings.init_timeout());
  ticket.addresses = server->addresses();
  Log(Subject::init, "rendezvous: listening on {}", net::TextOf(ticket.addresses));
  auto held = ThisProcess().Keep(std::move(server));
  if (hold != nullptr) {
    *hold = std::move(held);
  } else {
    held.Release();
  }
  return ticket;
}

std::vector<net::SocketAddress> OpenRendezvousFor(const JoinTicket& ticket, const Settings& settings, Deadline deadline,
                                                  Cancellation cancel, RendezvousHold& hold) {
  const auto patience = std::min(deadline, Deadline::After(kPortPatience));
  int error = 0;
  ThisProcess().RetireDecided();
  auto listeners = ListenFor(ticket, settings, error);
  while (listeners.empty() && error == EADDRINUSE && !patience.Passed()) {
    if (net::Wait({}, std::min(patience, Deadline::After(kPortRetry)), cancel) == net::Wake::cancelled)
      auth::ThrowCancelled();
    ThisProcess().RetireDecided();  // its ranks may have the verdict a moment before `decided` is set
    listeners = ListenFor(ticket, settings, error);
  }
  if (listeners.empty()) {
    Throw(tuttiInvalidUsage, "rank 0 cannot open the rendezvous at {}: {}{}", net::TextOf(ticket.addresses),
          ErrnoText(error), error == EADDRINUSE ? " (another job or server has this port; choose another)" : "");
  }
  auto server =
      std::make_unique<RendezvousServer>(std::move(listeners), RendezvousKey(ticket), settings.init_timeout());
  auto reachable = server->addresses();
  for (auto& address : reachable) {
    if (address.IsWildcard()) address = net::SocketAddress::Loopback(address.v6, address.port);
  }
  Log(Subject::init, "rendezvous: listening on {}", net::TextOf(server->addresses()));
  hold = ThisProcess().Keep(std::move(server));
  return reachable;
}

}  // namespace tutti::bootstrap
