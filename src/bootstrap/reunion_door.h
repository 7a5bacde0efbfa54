// The calls that come to a rank's port at a reunion (reunion.h): takes them in, and hears what each caller says first.
//
// Thread-safety: one thread at a time. Nothing here blocks.
#pragma once

#include <poll.h>

#include <cstddef>
#include <functional>
#include <list>
#include <span>
#include <vector>

#include "base/deadline.h"
#include "net/lobby.h"
#include "src/bootstrap/reunion_messages.h"

namespace tutti {

class ReunionDoor {
 public:
  // A rank and the connection to it.
  struct Contact {
    int rank;
    SecureChannel channel;
  };

  // Of rank `rank` of `nranks`. `told` keeps the connections of those who were answered, so that the answers arrive.
  // Lobby and `told` outlive this.
  ReunionDoor(Lobby& lobby, int rank, int nranks, std::vector<SecureChannel>& told)
      : lobby_(lobby), rank_(rank), nranks_(nranks), told_(told) {}

  // Appends what this waits for. REQUIRES: `fds` is empty.
  void Watch(std::vector<pollfd>& fds);
  Deadline NextDeadline() const { return lobby_.NextDeadline(); }
  // Gives `hear` each caller that has said something, and what. REQUIRES: `fds` begins with what Watch appended last.
  void Receive(std::span<const pollfd> fds, const std::function<void(Contact, const Presence&)>& hear);
  void Tell(SecureChannel channel, const std::vector<std::byte>& message);

 private:
  Lobby& lobby_;
  int rank_;
  int nranks_;
  std::size_t of_lobby_ = 0;      // entries
  std::list<Contact> newcomers_;  // who has not said anything yet
  std::vector<SecureChannel>& told_;
};

}  // namespace tutti
