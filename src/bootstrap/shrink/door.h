// The calls that come to a rank's port at a reunion (reunion.h), also those that came before it. Reads each caller's
// first message.
//
// Thread-safety: one thread at a time. Nothing here blocks.
#pragma once

#include <poll.h>

#include <functional>
#include <list>
#include <vector>

#include "net/auth/doorkeeper.h"
#include "src/bootstrap/shrink/messages.h"

namespace tutti {

class ReunionDoor {
 public:
  // A rank and the connection to it.
  struct Contact {
    int rank;
    SecureChannel channel;
  };

  // The door of rank `rank` of `nranks`. `told` keeps the connections of callers that were answered, so that the
  // answers arrive. Keeper and `told` outlive this.
  ReunionDoor(Doorkeeper& keeper, int rank, int nranks, std::vector<SecureChannel>& told)
      : keeper_(keeper), rank_(rank), nranks_(nranks), told_(told) {}

  // Appends what this waits for.
  void Watch(std::vector<pollfd>& fds) const;
  // Passes each caller that has said something, with its message, to `hear`.
  void Receive(const std::function<void(Contact, const Presence&)>& hear);
  void Tell(SecureChannel channel, const std::vector<std::byte>& message);

 private:
  Doorkeeper& keeper_;
  int rank_;
  int nranks_;
  std::list<Contact> newcomers_;  // who has not said anything yet
  std::vector<SecureChannel>& told_;
};

}  // namespace tutti
