// Accepts the calls to a rank's port at an agreement (membership_agreement.h), including earlier ones. Reads each
// caller's first message.
//
// Thread-safety: one thread at a time. Nothing here blocks.
#pragma once

#include <poll.h>

#include <functional>
#include <list>
#include <vector>

#include "net/auth/doorkeeper.h"
#include "src/bootstrap/shrink/messages.h"

namespace tutti::shrink {

class AgreementListener {
 public:
  // A rank and the connection to it.
  struct Contact {
    int rank;
    auth::SecureChannel channel;
  };

  // For rank `rank` of `nranks`. `told` keeps the connections of answered callers, so that the answers arrive.
  // Keeper and `told` outlive this.
  AgreementListener(auth::Doorkeeper& keeper, int rank, int nranks, std::vector<auth::SecureChannel>& told)
      : keeper_(keeper), rank_(rank), nranks_(nranks), told_(told) {}

  // Appends the descriptors that this waits for.
  void Watch(std::vector<pollfd>& fds) const;
  // Passes each caller whose first message has arrived, with that message, to `hear`.
  void Receive(const std::function<void(Contact, const Presence&)>& hear);
  void Tell(auth::SecureChannel channel, const std::vector<std::byte>& message);

 private:
  auth::Doorkeeper& keeper_;
  int rank_;
  int nranks_;
  std::list<Contact> newcomers_;  // callers whose first message has not arrived
  std::vector<auth::SecureChannel>& told_;
};

}  // namespace tutti::shrink
