// Traffic between the ranks of a test: slots of all sizes, whose data identifies its source.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/transports/conformance/ranks.h"

namespace tutti::testing {

// Tags of slots count from this value.
inline constexpr std::uint32_t kTagOfTraffic = 0xabcd0000;

// A connection to a peer and one from it: fills slots while there is room, and empties slots that have arrived.
struct Traffic {
  Traffic(Rank& self, int with, int on_channel, ring::Protocol on_protocol, std::uint32_t of)
      : rank(self), peer(with), channel(on_channel), protocol(on_protocol), slots(of) {}
  Traffic(Rank& self, int on_channel, ring::Protocol on_protocol, std::uint32_t of)
      : Traffic(self, self.peer(), on_channel, on_protocol, of) {}

  // An operation returns when it has received everything, and the network has accepted all that it sent.
  bool Done() const { return filled == slots && emptied == slots && rank.fabric.To(channel, protocol, peer).Drained(); }
  void Step();

  // Where the data of a slot that refers to memory lies.
  std::function<std::byte*(std::uint32_t slot)> elsewhere;
  Rank& rank;
  const int peer;
  const int channel;
  const ring::Protocol protocol;
  const std::uint32_t slots;
  std::uint32_t filled = 0, emptied = 0;
};

// Exchanges slots with every peer, on all protocols.
void MoveAll(Rank& rank, int channels);
// Runs until all traffic is done.
void Finish(Rank& rank, std::vector<Traffic>& all);

void ExpectWords(const std::string& text, const std::vector<std::string>& words);

}  // namespace tutti::testing
