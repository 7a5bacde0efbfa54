// How a message moves between two GPUs: the channels that fill the link between them, by its length. A channel is a thread
// block at both ends, which moves a small part of what NVLink carries.
//
// Both ranks must take the same channels, but only they know of the message, and neither knows what else the other one
// sends and receives. So the number depends on the message's length, and on the pair's link alone. A group with many
// messages runs their channels by fewer blocks (src/device/launch_group.h), which each rank decides for itself.
//
// Rank 0 prices and sends the table to all.
//
// Thread-safety: value type; pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "selection/cost_model/candidates.h"
#include "selection/cost_model/machine.h"

namespace tutti::tuner {

struct MessageWay {
  int channels = 1;
  schedule::ProtocolConfig config = {};
  friend bool operator==(const MessageWay&, const MessageWay&) = default;
};

// The predicted time of one message from `from` to `to`, in slots of `depth` a connection. Unlike the cost model, which
// leaves that to the simulator, this counts the time for which a channel waits for a free slot: a message has no more steps
// in which that time could hide.
double MessageMicroseconds(const cost_model::Machine& machine, int from, int to, const MessageWay& way,
                           std::uint32_t depth, std::size_t bytes);

// Whether the user lets messages take this protocol, where there are others.
bool MayTake(ring::Protocol protocol, const cost_model::Forced& forced);

class MessageTable {
 public:
  struct Entry {
    std::size_t from_bytes = 0;  // up to the next entry's
    int channels = 1;
    friend bool operator==(const Entry&, const Entry&) = default;
  };

  MessageTable() = default;
  // Prices messages between the ranks of the fullest host: of others, it holds for the ranks in the same places. REQUIRES:
  // `tuning` is of the machine, whose hosts are alike where the links between ranks differ.
  MessageTable(const cost_model::Machine& machine, const cost_model::TuningContext& tuning);

  // `tuning`: as for the constructor. Between hosts, channels are few whatever the link: the network's slots are long, and
  // one thread of each rank moves them.
  MessageWay At(const cost_model::TuningContext& tuning, int from, int to, std::size_t bytes) const;
  // Ascending, from 0.
  const std::vector<Entry>& Row(const cost_model::TuningContext& tuning, int from, int to) const;

  std::string ToJson() const;
  // Throws tuttiInvalidArgument with `name` and the reason if it is malformed, or not for these ranks.
  static MessageTable FromJson(const std::string& text, const std::string& name,
                               const cost_model::TuningContext& tuning);

  friend bool operator==(const MessageTable&, const MessageTable&) = default;

 private:
  std::vector<std::vector<Entry>> rows_ = {{{}}};  // of links that differ
  // Which row, by the ranks' places on their host: place of `from` * places + place of `to`. Empty: the only one.
  std::vector<int> row_of_pair_;
  int places_ = 1;
};

}  // namespace tutti::tuner
