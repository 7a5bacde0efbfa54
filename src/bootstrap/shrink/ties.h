// What holds those who agreed at a reunion (reunion.h) together until they are a communicator: the leader's connections
// to its followers. Whoever ends in between cannot be told from who is late where the new communicator is made; here
// its connection ends.
//
// Thread-safety: one thread at a time. Nothing here blocks.
#pragma once

#include <vector>

#include "base/deadline.h"
#include "net/auth/channel.h"

namespace tutti {

class ReunionTies {
 public:
  // `silence`: a system that has answered nothing for so long is gone.
  explicit ReunionTies(Deadline::Milliseconds silence) : silence_(silence) {}

  // Between this rank and one that joins with it.
  void Keep(SecureChannel channel);
  // Whether one of those has ended, left or fallen silent before it said that it had joined.
  bool OneEnded();
  // This rank has joined; it may go before the others have.
  void SayJoined();
  // The ties of the meeting before.
  void Cut() { ties_.clear(); }

 private:
  struct Tie {
    SecureChannel channel;
    bool joined = false;  // the other end
  };

  Deadline::Milliseconds silence_;
  std::vector<Tie> ties_;
};

}  // namespace tutti
