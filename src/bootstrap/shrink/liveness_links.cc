#include "src/bootstrap/shrink/liveness_links.h"

#include <utility>

#include "src/bootstrap/shrink/messages.h"

namespace tutti::shrink {

void LivenessLinks::Keep(auth::SecureChannel channel) {
  net::KeepAlive(channel.socket(), silence_);
  links_.push_back({std::move(channel)});
}

bool LivenessLinks::OneEnded() {
  bool one_ended = false;
  for (auto& link : links_) {
    while (const auto frame = link.channel.Receive()) link.joined = link.joined || DecodeJoined(*frame);
    one_ended = one_ended || (link.channel.closed() && !link.joined);
  }
  return one_ended;
}

void LivenessLinks::SayJoined() {
  for (auto& link : links_) link.channel.Queue(Encode(Joined{}));
}

}  // namespace tutti::shrink
