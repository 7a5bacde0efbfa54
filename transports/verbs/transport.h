// The verbs transport: slots and short messages go over reliable queue pairs, one to each peer on each of this rank's
// RDMA ports. A side channel connects the queue pairs and detects when a peer's process is gone. A device alone could
// not: it retries for seconds, only while something is being sent, and is not aware of processes.
//
// Thread-safety: one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/all_gather.h"
#include "base/settings.h"
#include "net/auth/secret_key.h"
#include "transports/progress/network_transport.h"
#include "transports/tcp/side_channel.h"
#include "transports/verbs/peer.h"

namespace tutti::verbs {

class VerbsTransport final : public progress::NetworkTransport, private tcp::SideEvents {
 public:
  // Collective over all ranks. Throws what OpenRails() and TcpTransport throw.
  VerbsTransport(int rank, const std::vector<int>& peers, const auth::SecretKey& key, const Settings& settings,
                 const AllGather& all_gather, progress::NetworkTransportEvents& events);
  ~VerbsTransport() override;

  double bandwidth() const override;
  void Connect(int peer) override;
  int Room(int peer) const override;
  void Send(int peer, const progress::SlotMessage& message, const std::byte* data) override;
  void SendControl(int peer, std::span<const std::byte> message) override;
  void Flush(int /*peer*/) override {}  // what is taken is posted at once
  bool Advance() override;
  void LookForSilence() override;
  int descriptor() const override { return side_.descriptor(); }
  Deadline::Milliseconds LongestWait() const override;
  bool PrepareToSleep() override;
  void Register(const std::byte* begin, std::size_t bytes) override;
  void Deregister(const std::byte* begin, std::size_t bytes) override;
  void Abandon(int peer) override;
  void Close() override;
  bool Reaches(int peer) const override;
  bool Delivered(int peer) const override;

 private:
  struct Peer {
    Peer(int rank, std::size_t rails, const VerbsPeer::Shared& shared) : verbs(rank, rails, shared) {}

    VerbsPeer verbs;
    bool broken = false;
    bool begun = false;
  };

  // From the side channel.
  void Connected(int peer) override;
  bool Control(int peer, std::span<const std::byte> message) override;
  void Broken(int peer, const std::string& why) override;

  Peer& At(int peer) const { return *peers_[static_cast<std::size_t>(peer)]; }
  void Begin(int rank);
  void Say(int rank, const VerbsMessage& message);
  bool AdvanceSide();
  bool AdvanceEnds();
  bool PollRail(std::size_t rail);
  bool LookAtEvents();
  void Trouble(int rank);
  void Check(int rank, bool fine);
  void Break(int rank, const std::string& why);

  int rank_;
  Settings settings_;
  progress::NetworkTransportEvents& events_;
  Rails rails_;
  tcp::SideChannel side_;
  progress::RangeMap<RailRegions> registered_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank; null for those that it was not made for
  std::vector<int> starting_;                 // begun, and neither up nor broken
  tcp::LastArrivals last_arrivals_;
  unsigned polls_ = 0;
  bool closed_ = false;
};

}  // namespace tutti::verbs
