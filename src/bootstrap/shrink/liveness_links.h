// Keeps the ranks that took part in an agreement (membership_agreement.h) together until they are a communicator, over
// the leader's connections to its followers. While the new communicator is made, a rank that ended looks the same as a
// late one; here its connection ends.
//
// Thread-safety: one thread at a time. Nothing here blocks.
#pragma once

#include <vector>

#include "base/clocks/deadline.h"
#include "net/auth/channel.h"

namespace tutti::shrink {

class LivenessLinks {
 public:
  // `silence`: a system that has not answered for this long is gone.
  explicit LivenessLinks(Deadline::Milliseconds silence) : silence_(silence) {}

  // Keeps a connection between this rank and one that joins with it.
  void Keep(auth::SecureChannel channel);
  // Whether a linked rank ended, left or fell silent before it reported that it had joined.
  bool OneEnded();
  // Reports that this rank has joined; it may end before the others have.
  void SayJoined();
  // Drops the previous meeting's links.
  void Cut() { links_.clear(); }

 private:
  struct Link {
    auth::SecureChannel channel;
    bool joined = false;  // whether the other end has joined
  };

  Deadline::Milliseconds silence_;
  std::vector<Link> links_;
};

}  // namespace tutti::shrink
