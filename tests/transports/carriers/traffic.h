// What ranks of a test send each other: slots of all sizes, whose data says where it comes from.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/transports/carriers/ranks.h"

namespace tutti::testing {

// Slots' tags count from here.
inline constexpr std::uint32_t kTagOfTraffic = 0xabcd0000;

// A connection to a peer and one from it: fills what may be filled, empties what has come.
struct Traffic {
  Traffic(Rank& self, int with, int on_channel, Wire on_wire, std::uint32_t of)
      : rank(self), peer(with), channel(on_channel), wire(on_wire), slots(of) {}
  Traffic(Rank& self, int on_channel, Wire on_wire, std::uint32_t of)
      : Traffic(self, self.peer(), on_channel, on_wire, of) {}

  // An operation returns when it has got everything, and the network has all that it sent.
  bool Done() const { return filled == slots && emptied == slots && rank.fabric.To(channel, wire, peer).Drained(); }
  void Step();

  // Where the data of a slot that refers to some is.
  std::function<std::byte*(std::uint32_t slot)> elsewhere;
  Rank& rank;
  const int peer;
  const int channel;
  const Wire wire;
  const std::uint32_t slots;
  std::uint32_t filled = 0, emptied = 0;
};

// With every peer, on all wires.
void MoveAll(Rank& rank, int channels);
// Until all of it is done.
void Finish(Rank& rank, std::vector<Traffic>& all);

void ExpectWords(const std::string& text, const std::vector<std::string>& words);

}  // namespace tutti::testing
