#include "net/auth/port.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/threads/quiet_thread.h"

namespace tutti::auth {
namespace {

constexpr std::chrono::milliseconds kPauseAfterFailure{20};

net::Socket MakeEvent() {
  net::Socket event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) ThrowErrno("cannot make an eventfd for a port");
  return event;
}

struct Ports {
  const pid_t owner = getpid();
  std::mutex mutex;
  std::vector<std::pair<std::vector<net::SocketAddress>, std::weak_ptr<Port>>> open;  // by places
};

// Never destroyed: threads may still join while the process exits. A forked child begins its own list, because its
// parent's mutex may be locked forever.
Ports& PortsOfThisProcess() {
  static std::atomic<Ports*> current{nullptr};
  // acquire and release: a thread that finds the pointer finds the object behind it.
  auto* found = current.load(std::memory_order_acquire);
  while (found == nullptr || found->owner != getpid()) {
    auto fresh = std::make_unique<Ports>();
    if (current.compare_exchange_strong(found, fresh.get(), std::memory_order_acq_rel)) found = fresh.release();
  }
  return *found;
}

}  // namespace

void Callers::Add(Admitted& one) {
  const std::scoped_lock lock(mutex_);
  admitted_.push_back(std::move(one));
  if (news_) eventfd_write(news_.fd(), 1);
}

std::vector<Admitted> Callers::Take() {
  const std::scoped_lock lock(mutex_);
  eventfd_t count = 0;
  if (news_) eventfd_read(news_.fd(), &count);
  return std::exchange(admitted_, {});
}

int Callers::descriptor() {
  const std::scoped_lock lock(mutex_);
  if (!news_) {
    news_ = MakeEvent();
    if (!admitted_.empty()) eventfd_write(news_.fd(), 1);
  }
  return news_.fd();
}

std::shared_ptr<Port> Port::At(const std::vector<net::SocketAddress>& places, std::string_view who) {
  auto& ports = PortsOfThisProcess();
  const std::scoped_lock lock(ports.mutex);
  std::erase_if(ports.open, [](const auto& each) { return each.second.expired(); });
  const auto found = std::ranges::find(ports.open, places, [](const auto& each) { return each.first; });
  if (found != ports.open.end()) {
    if (auto port = found->second.lock()) return port;
    ports.open.erase(found);
  }
  auto port = std::make_shared<Port>(net::ListenOnAll(places, who));
  ports.open.emplace_back(places, port);
  return port;
}

Port::Port(std::vector<net::Socket> listeners) : owner_(getpid()), shared_(new Shared{MakeEvent(), {}, {}, {}}) {
  for (const auto& listener : listeners) addresses_.push_back(net::LocalAddress(listener));
  HandshakePool handshakes(std::move(listeners),
                           [shared = shared_.get()](const auto& hello) { return shared->Find(hello); });
  try {
    thread_ = std::make_unique<std::thread>(QuietThread(&Run, std::ref(*shared_), std::move(handshakes)));
  } catch (const std::system_error& error) {
    ThrowSystem("cannot start a port's thread", error.code().value());
  }
}

Port::~Port() {
  if (!in_this_process()) {
    // The thread lives in the parent only; it can be neither joined nor detached here, and may have held the mutex.
    static_cast<void>(thread_.release());
    static_cast<void>(shared_.release());
    return;
  }
  eventfd_write(shared_->stop.fd(), 1);
  thread_->join();
}

bool Port::in_this_process() const { return getpid() == owner_; }

void Port::Serve(const SecretKey& key, Purpose purpose, int rank, std::shared_ptr<Callers> callers) {
  const std::scoped_lock lock(shared_->mutex);
  shared_->ranks[{NameOf(key, purpose), static_cast<std::uint32_t>(rank)}] = {key, purpose, std::move(callers)};
}

void Port::Remove(const SecretKey& key, Purpose purpose, int rank) {
  const std::scoped_lock lock(shared_->mutex);
  shared_->ranks.erase({NameOf(key, purpose), static_cast<std::uint32_t>(rank)});
}

std::optional<HandshakePool::Server> Port::Shared::Find(const ClientHello& hello) {
  const std::scoped_lock lock(mutex);
  auto found = ranks.find({hello.key_name, hello.callee});
  // A client that means another rank of the communicator is told which one it has reached.
  if (found == ranks.end()) {
    found = std::ranges::find(ranks, hello.key_name, [](const auto& each) { return each.first.first; });
  }
  if (found == ranks.end())
    return HandshakePool::Server{SecretKey::Random(), hello.callee};  // it learns that nobody is here
  if (found->second.purpose != hello.purpose) return std::nullopt;
  return HandshakePool::Server{found->second.key, found->first.second};
}

void Port::Shared::PassOn(Admitted& one) {
  std::shared_ptr<Callers> callers;
  {
    const std::scoped_lock lock(mutex);
    const auto found = ranks.find({one.key_name, static_cast<std::uint32_t>(one.callee)});
    if (found == ranks.end()) return;  // removed meanwhile
    callers = found->second.callers;
  }
  callers->Add(one);
}

bool Port::Stopped(const Shared& shared) {
  eventfd_t count = 0;
  return eventfd_read(shared.stop.fd(), &count) == 0;
}

void Port::Run(Shared& shared, HandshakePool handshakes) {
  pthread_setname_np(pthread_self(), "tutti-port");
  std::vector<pollfd> fds;
  std::vector<Admitted> admitted;
  bool failed = false;
  while (!Stopped(shared)) {
    try {
      fds.assign(1, {shared.stop.fd(), POLLIN, 0});
      handshakes.Watch(fds);
      net::Wait(fds, handshakes.NextDeadline());
      // Set before a caller can get this side's proof. The system calls that carry the proof to the caller, and the
      // caller's bytes back to this process, order this store before a load that follows them.
      shared.proving.store(true, std::memory_order_seq_cst);
      handshakes.Advance(std::span<const pollfd>(fds).subspan(1), admitted);
      for (; !admitted.empty(); admitted.erase(admitted.begin())) shared.PassOn(admitted.front());
      failed = false;
    } catch (const std::exception&) {
      // Short of memory, perhaps for a moment. A port that nobody serves would look like that of a stopped rank, and its
      // callers would wait. Those that were proven meanwhile are passed on in the next round.
      if (!std::exchange(failed, true)) Log(Subject::faults, "a port is not served for a moment: a system call failed");
      std::this_thread::sleep_for(kPauseAfterFailure);
    }
    // Releases the lists: a thread that reads false sees all admitted connections.
    shared.proving.store(false, std::memory_order_release);
  }
  handshakes.Close();
}

}  // namespace tutti::auth
