// A port of this process at which its ranks can be called, for all of its communicators.
//
// A port that is not drained fills up: then the system leaves new calls unanswered, and a living rank looks as dead as
// one whose system has gone. So a thread accepts every call while the program computes, and passes each connection that
// proves itself (handshake_pool.h) to the doorkeeper (doorkeeper.h) of the rank that was called. The thread sleeps while
// there are no calls. A process has one port for each choice of addresses, so further communicators cost no descriptor
// and no thread.
//
// Thread-safety: all members, from any thread. In a forked child the object does nothing.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "net/auth/handshake_pool.h"

namespace tutti::auth {

// The proven connections to one rank that its doorkeeper has not taken yet.
class Callers {
 public:
  // Takes the connection, unless it throws.
  void Add(Admitted& one);
  std::vector<Admitted> Take();
  // Polls readable while Take() would return a connection. Made on first use. Throws tuttiSystemError.
  int descriptor();

 private:
  std::mutex mutex_;
  net::Socket news_;  // an eventfd
  std::vector<Admitted> admitted_;
};

class Port {
 public:
  // This process's port at these addresses, at a number that the system chooses; closed when its last user goes. Throws
  // tuttiSystemError, naming `who`, if it cannot listen or cannot start a thread. REQUIRES: the addresses name no port.
  static std::shared_ptr<Port> At(const std::vector<net::SocketAddress>& places, std::string_view who);
  // REQUIRES: the listeners listen.
  explicit Port(std::vector<net::Socket> listeners);
  // Stops listening, also on copies of the port in forked children. In such a child: leaves the parent's port alone.
  ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  const std::vector<net::SocketAddress>& addresses() const { return addresses_; }
  // From now on, callers who mean this rank and hold this key are passed on, until it is removed. REQUIRES: the key is
  // fresh, and serves no other purpose.
  void Serve(const SecretKey& key, Purpose purpose, int rank, std::shared_ptr<Callers> callers);
  void Remove(const SecretKey& key, Purpose purpose, int rank);
  // Whether connections are being proven at this moment. A caller may believe that it is connected already, although
  // Callers::Take() does not return the connection before this is false.
  bool proving() const { return shared_->proving.load(std::memory_order_acquire); }
  bool in_this_process() const;

 private:
  struct Served {
    SecretKey key;
    Purpose purpose;
    std::shared_ptr<Callers> callers;
  };
  struct Shared {
    net::Socket stop;  // an eventfd
    std::mutex mutex;
    std::map<std::pair<KeyName, std::uint32_t>, Served> ranks;  // under mutex
    std::atomic<bool> proving{false};

    std::optional<HandshakePool::Server> Find(const ClientHello& hello);
    // Takes the connection, unless it throws.
    void PassOn(Admitted& one);
  };
  static bool Stopped(const Shared& shared);
  static void Run(Shared& shared, HandshakePool handshakes);

  pid_t owner_;
  std::vector<net::SocketAddress> addresses_;
  std::unique_ptr<Shared> shared_;
  std::unique_ptr<std::thread> thread_;
};

}  // namespace tutti::auth
