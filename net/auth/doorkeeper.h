// A thread that accepts calls at a rank's ports while the rank's program computes.
//
// A port that is not drained fills up: then the system leaves new calls unanswered, and a living rank looks as dead as
// one whose system has gone. So a thread accepts every call, and keeps the connections that prove themselves
// (handshake_pool.h) until the caller takes them. It sleeps while there are no calls. Strangers cost the data path
// nothing: it looks at one descriptor, which only proven connections make readable.
//
// Thread-safety: one thread at a time. In a forked child the object does nothing.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "net/auth/handshake_pool.h"

namespace tutti::auth {

class Doorkeeper {
 public:
  // Serves rank `rank`'s ports. REQUIRES: the listeners listen. Throws tuttiSystemError if no thread starts.
  Doorkeeper(std::vector<net::Socket> listeners, const SecretKey& key, Purpose purpose, int rank);
  // Stops listening, also on copies of the ports in forked children. In such a child: leaves the parent's ports alone.
  ~Doorkeeper();
  Doorkeeper(const Doorkeeper&) = delete;
  Doorkeeper& operator=(const Doorkeeper&) = delete;

  // The proven connections that were not returned yet, in their order.
  std::vector<Admitted> Take();
  // Polls readable while Take() would return a connection.
  int descriptor() const { return shared_->news.fd(); }
  // Whether connections are being proven at this moment. A caller may believe that it is connected already, although
  // Take() does not return the connection before this is false.
  bool proving() const { return shared_->proving.load(std::memory_order_acquire); }

 private:
  struct Shared {
    HandshakePool handshakes;  // the thread's
    net::Socket stop;          // eventfds
    net::Socket news;
    std::mutex mutex;
    std::vector<Admitted> admitted;  // under mutex
    std::atomic<bool> proving{false};
  };
  static void Serve(Shared& shared);

  pid_t owner_;
  std::unique_ptr<Shared> shared_;
  std::unique_ptr<std::thread> thread_;
};

}  // namespace tutti::auth
