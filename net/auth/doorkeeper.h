// Takes the calls to one rank of a communicator at its process's port (port.h).
//
// Strangers cost the data path nothing: it looks at one descriptor, which only proven connections make readable.
//
// Thread-safety: one thread at a time. In a forked child the object does nothing.
#pragma once

#include <memory>
#include <vector>

#include "net/auth/port.h"

namespace tutti::auth {

class Doorkeeper {
 public:
  Doorkeeper(std::shared_ptr<Port> port, const SecretKey& key, Purpose purpose, int rank);
  // Nobody reaches the rank any more: callers are told that it is not here.
  ~Doorkeeper();
  Doorkeeper(const Doorkeeper&) = delete;
  Doorkeeper& operator=(const Doorkeeper&) = delete;

  // The proven connections that were not returned yet, in their order.
  std::vector<Admitted> Take();
  // Polls readable while Take() would return a connection.
  int descriptor() const { return callers_->descriptor(); }
  // See Port::proving.
  bool proving() const { return port_->proving(); }

 private:
  std::shared_ptr<Port> port_;
  SecretKey key_;
  Purpose purpose_;
  int rank_;
  std::shared_ptr<Callers> callers_ = std::make_shared<Callers>();
};

}  // namespace tutti::auth
