// The verbs carrier: slots and short messages go over reliable queue pairs, one to each peer on each of this rank's
// RDMA ports. Beside it runs a TCP carrier with one connection to each peer that is needed, which
// - proves that the peer holds the job's secret, before anything of it is believed,
// - carries what both sides must know to connect their queue pairs,
// - tells when the peer's process or its system is gone. A device alone could not: it retries for seconds, only while
//   something is being sent, and knows no processes.
//
// Thread-safety: one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/settings.h"
#include "net/secret_key.h"
#include "transports/carrier.h"
#include "transports/hosts.h"
#include "transports/segment.h"
#include "transports/tcp.h"
#include "transports/verbs_peer.h"

namespace tutti {

class VerbsCarrier final : public Carrier, private CarrierEvents {
 public:
  // Collective over all ranks. Throws what OpenRails() and TcpCarrier throw.
  VerbsCarrier(int rank, const std::vector<int>& peers, const SecretKey& key, const Settings& settings,
               const AllGather& all_gather, CarrierEvents& events);
  ~VerbsCarrier() override;

  void Connect(int peer) override;
  int Room(int peer) const override;
  void Send(int peer, const SlotMessage& message, const std::byte* data) override;
  void SendControl(int peer, std::span<const std::byte> message) override;
  void Flush(int /*peer*/) override {}  // what is taken is posted at once
  bool Advance() override;
  void LookForSilence() override;
  int descriptor() const override { return epoll_.get(); }
  Deadline::Milliseconds LongestWait() const override;
  bool PrepareToSleep() override;
  void Register(const std::byte* begin, std::size_t bytes) override;
  void Deregister(const std::byte* begin, std::size_t bytes) override;
  void Close() override;
  bool Delivered(int peer) const override;

 private:
  struct Peer {
    Peer(int rank, std::size_t rails, const VerbsPeer::Shared& shared) : verbs(rank, rails, shared) {}

    VerbsPeer verbs;
    bool broken = false;
    bool begun = false;
    // The TCP connection's end; what came before it may still be on the completion queues.
    std::string end;
    Deadline ends = Deadline::Never();
  };

  // From the TCP carrier.
  void Connected(int peer) override;
  std::byte* Landing(int /*peer*/, const SlotMessage& /*message*/) override { return nullptr; }
  void Landed(int /*peer*/, const SlotMessage& /*message*/) override {}
  void Sent(int /*peer*/, std::uint32_t /*connection*/, std::uint32_t /*number*/) override {}
  bool Control(int peer, std::span<const std::byte> message) override;
  void Broken(int peer, const std::string& why) override;

  Peer& At(int peer) const { return *peers_[static_cast<std::size_t>(peer)]; }
  void Begin(int rank);
  void Say(int rank, const VerbsMessage& message);
  bool AdvanceTcp();
  bool AdvanceSide();
  bool AdvanceEnds();
  bool PollRail(std::size_t rail);
  bool LookAtEvents();
  void Trouble(int rank);
  void Check(int rank, bool fine);
  void Break(int rank, const std::string& why);

  int rank_;
  Settings settings_;
  CarrierEvents& events_;
  FileDescriptor epoll_;
  Rails rails_;
  std::unique_ptr<TcpCarrier> tcp_;
  RangeMap<RailRegions> registered_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank; null for those that it was not made for
  std::vector<int> starting_;                 // begun, and neither up nor broken
  std::vector<int> ending_;
  // The TCP carrier is at work further up the stack: what is said meanwhile is flushed when it has returned.
  bool in_tcp_ = false;
  std::vector<int> to_flush_;
  unsigned polls_ = 0;
  bool closed_ = false;
};

}  // namespace tutti
