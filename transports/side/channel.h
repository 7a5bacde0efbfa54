// One TCP connection to each peer, for a transport that moves slots by other means:
// - it proves that the peer holds the job's secret, before anything of it is believed,
// - it carries what both sides must know to reach each other by the other means,
// - it reports that the peer's process or system is gone, which the other means report late or not at all.
//
// `events` may call Say(): messages queued while the TCP transport is at work further up the stack are flushed when it
// has returned.
//
// Thread-safety: one thread at a time.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/all_gather.h"
#include "base/file_descriptor.h"
#include "base/settings/settings.h"
#include "net/auth/secret_key.h"
#include "transports/progress/network_transport.h"
#include "transports/tcp/tcp.h"

namespace tutti::side {

// Events of a channel, which carries no slots.
class ChannelEvents : public progress::NetworkTransportEvents {
  std::byte* Landing(int /*peer*/, const progress::SlotMessage& /*message*/) final { return nullptr; }
  void Landed(int /*peer*/, const progress::SlotMessage& /*message*/) final {}
  void Sent(int /*peer*/, std::uint32_t /*connection*/, std::uint32_t /*number*/) final {}
};

class Channel {
 public:
  // Collective over all ranks; throws what tcp::TcpTransport throws.
  Channel(int rank, const std::vector<int>& peers, const auth::SecretKey& key, const Settings& settings,
          const AllGather& all_gather, ChannelEvents& events);

  void Connect(int peer);
  // Messages longer than a short message may be are lost: of ours, only one with a text could be so long.
  void Say(int peer, std::span<const std::byte> bytes);
  // Handles all that has happened. True: something had.
  bool Advance();
  void LookForSilence() { tcp_.LookForSilence(); }
  void Close() { tcp_.Close(); }
  bool Reaches(int peer) const { return tcp_.Reaches(peer); }
  bool Delivered(int peer) const { return tcp_.Delivered(peer); }
  Deadline::Milliseconds LongestWait() const { return tcp_.LongestWait(); }

  // Polls readable when Advance() would find something, or one of the watched descriptors polls so.
  int descriptor() const { return epoll_.get(); }
  // Throws tuttiSystemError.
  void Watch(int fd);

 private:
  FileDescriptor epoll_;
  tcp::TcpTransport tcp_;
  bool in_tcp_ = false;
  std::vector<int> to_flush_;
};

}  // namespace tutti::side
