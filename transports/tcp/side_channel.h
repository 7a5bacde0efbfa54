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
#include "base/settings.h"
#include "net/auth/secret_key.h"
#include "transports/progress/network_transport.h"
#include "transports/tcp/tcp.h"

namespace tutti::tcp {

// Events of a side channel, which carries no slots.
class SideEvents : public progress::NetworkTransportEvents {
  std::byte* Landing(int /*peer*/, const progress::SlotMessage& /*message*/) final { return nullptr; }
  void Landed(int /*peer*/, const progress::SlotMessage& /*message*/) final {}
  void Sent(int /*peer*/, std::uint32_t /*connection*/, std::uint32_t /*number*/) final {}
};

class SideChannel {
 public:
  // Collective over all ranks; throws what TcpTransport throws.
  SideChannel(int rank, const std::vector<int>& peers, const auth::SecretKey& key, const Settings& settings,
              const AllGather& all_gather, SideEvents& events);

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
  TcpTransport tcp_;
  bool in_tcp_ = false;
  std::vector<int> to_flush_;
};

// How long to wait for what a peer sent before its process ended, or for the side channel's word about a failed connection.
// Longer than a standstill of this process can count (Lookout::kMostCounted), so that a rank that did not run meanwhile
// looks once more; a device, too, may have acknowledged data before it puts it into memory.
inline constexpr Deadline::Milliseconds kLastArrivals{150};
// How often to look meanwhile.
inline constexpr Deadline::Milliseconds kLookForArrivals{10};

// Peers that will send nothing more, while what they sent before may still be on its way by the other means.
class LastArrivals {
 public:
  bool empty() const { return ends_.empty(); }
  // `why` it ended, for a person. The first reason counts.
  void Await(int peer, std::string why, Deadline::Milliseconds longest);
  // Null: no end is known.
  const std::string* Why(int peer) const;
  void Forget(int peer);
  // Peers whose time is over, or for which `all_here(peer)` is true.
  template <typename AllHere>
  std::vector<int> Over(AllHere&& all_here) const {
    std::vector<int> peers;
    for (const auto& end : ends_) {
      if (end.deadline.Passed() || all_here(end.peer)) peers.push_back(end.peer);
    }
    return peers;
  }

 private:
  struct End {
    int peer;
    std::string why;
    Deadline deadline;
  };

  std::vector<End> ends_;
};

}  // namespace tutti::tcp
