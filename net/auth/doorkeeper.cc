#include "net/auth/doorkeeper.h"

#include <utility>

namespace tutti::auth {

Doorkeeper::Doorkeeper(std::shared_ptr<Port> port, const SecretKey& key, Purpose purpose, int rank)
    : port_(std::move(port)), key_(key), purpose_(purpose), rank_(rank) {
  port_->Serve(key_, purpose_, rank_, callers_);
}

// A forked child does not touch the lists: their mutexes may be locked forever.
Doorkeeper::~Doorkeeper() {
  if (port_->in_this_process()) port_->Remove(key_, purpose_, rank_);
}

std::vector<Admitted> Doorkeeper::Take() {
  return port_->in_this_process() ? callers_->Take() : std::vector<Admitted>();
}

}  // namespace tutti::auth
