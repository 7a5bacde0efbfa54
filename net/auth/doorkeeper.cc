#include "net/auth/doorkeeper.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <iterator>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/threads/quiet_thread.h"

namespace tutti::auth {
namespace {

net::Socket MakeEvent() {
  net::Socket event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) ThrowErrno("cannot make an eventfd for a port's thread");
  return event;
}

}  // namespace

Doorkeeper::Doorkeeper(std::vector<net::Socket> listeners, const SecretKey& key, Purpose purpose, int rank)
    : owner_(getpid()),
      shared_(
          new Shared{HandshakePool(std::move(listeners), key, purpose, rank), MakeEvent(), MakeEvent(), {}, {}, {}}) {
  try {
    thread_ = std::make_unique<std::thread>(QuietThread(&Serve, std::ref(*shared_)));
  } catch (const std::system_error& error) {
    ThrowSystem("cannot start a port's thread", error.code().value());
  }
}

Doorkeeper::~Doorkeeper() {
  if (getpid() != owner_) {
    // The thread lives in the parent only; it can be neither joined nor detached here, and may have held the mutex.
    static_cast<void>(thread_.release());
    static_cast<void>(shared_.release());
    return;
  }
  eventfd_write(shared_->stop.fd(), 1);
  thread_->join();
  shared_->handshakes.Close();
}

std::vector<Admitted> Doorkeeper::Take() {
  if (getpid() != owner_) return {};
  const std::scoped_lock lock(shared_->mutex);
  // Before the list is taken: a connection that comes afterwards signals again.
  eventfd_t count = 0;
  eventfd_read(shared_->news.fd(), &count);
  return std::exchange(shared_->admitted, {});
}

void Doorkeeper::Serve(Shared& shared) {
  pthread_setname_np(pthread_self(), "tutti-door");
  std::vector<pollfd> fds;
  std::vector<Admitted> admitted;
  try {
    for (;;) {
      fds.assign(1, {shared.stop.fd(), POLLIN, 0});
      shared.handshakes.Watch(fds);
      net::Wait(fds, shared.handshakes.NextDeadline());
      if (fds[0].revents != 0) return;
      admitted.clear();
      // Set before a caller can get this side's proof. The system calls that carry the proof to the caller, and the
      // caller's bytes back to this process, order this store before a load that follows them.
      shared.proving.store(true, std::memory_order_seq_cst);
      shared.handshakes.Advance(std::span<const pollfd>(fds).subspan(1), admitted);
      if (!admitted.empty()) {
        const std::scoped_lock lock(shared.mutex);
        shared.admitted.insert(shared.admitted.end(), std::make_move_iterator(admitted.begin()),
                               std::make_move_iterator(admitted.end()));
        eventfd_write(shared.news.fd(), 1);
      }
      // Releases the list: a thread that reads false sees all admitted connections.
      shared.proving.store(false, std::memory_order_release);
    }
  } catch (const std::exception& error) {
    // Out of memory. Callers find the port open and unanswered, like that of a stopped rank.
    Log(Subject::faults, "a port is no longer served: {}", error.what());
  }
}

}  // namespace tutti::auth
