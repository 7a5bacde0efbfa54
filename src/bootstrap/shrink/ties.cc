#include "src/bootstrap/shrink/ties.h"

#include <utility>

#include "src/bootstrap/shrink/messages.h"

namespace tutti::shrink {

void LivenessLinks::Keep(auth::SecureChannel channel) {
  net::KeepAlive(channel.socket(), silence_);
  ties_.push_back({std::move(channel)});
}

bool LivenessLinks::OneEnded() {
  bool one_ended = false;
  for (auto& tie : ties_) {
    while (const auto frame = tie.channel.Receive()) tie.joined = tie.joined || DecodeJoined(*frame);
    one_ended = one_ended || (tie.channel.closed() && !tie.joined);
  }
  return one_ended;
}

void LivenessLinks::SayJoined() {
  for (auto& tie : ties_) tie.channel.Queue(Encode(Joined{}));
}

}  // namespace tutti::shrink
