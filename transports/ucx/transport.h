// The UCX transport: slots and short messages are active messages of UCX, over any networks that it finds between two
// hosts. UCX proves nothing: any process that reaches a worker can send to it. So workers' addresses travel only over
// the side channel, which has proven the job's secret, together with a random token for each direction of each pair of
// ranks. A message without the sender's token is dropped, and no peer learns of it.
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
#include "transports/ucx/peer.h"

namespace tutti::ucx {

class UcxTransport final : public progress::NetworkTransport, private tcp::SideEvents {
 public:
  // Collective over all ranks. Throws what UcxWorker and TcpTransport throw.
  UcxTransport(int rank, const std::vector<int>& peers, const auth::SecretKey& key, const Settings& settings,
               const AllGather& all_gather, progress::NetworkTransportEvents& events);
  ~UcxTransport() override;

  // The address at which UCX reaches this rank; only peers get it.
  const std::vector<std::byte>& address() const { return worker_.address(); }

  void Connect(int peer) override;
  int Room(int peer) const override { return At(peer).ucx.Room(); }
  void Send(int peer, const progress::SlotMessage& message, const std::byte* data) override {
    At(peer).ucx.Send(message, data);
  }
  void SendControl(int peer, std::span<const std::byte> message) override;
  void Flush(int /*peer*/) override {}  // what is taken is on its way at once
  bool Advance() override;
  void LookForSilence() override { side_.LookForSilence(); }
  int descriptor() const override { return side_.descriptor(); }
  Deadline::Milliseconds LongestWait() const override;
  bool PrepareToSleep() override;
  void Abandon(int peer) override;
  void Close() override;
  bool Reaches(int peer) const override;
  bool Delivered(int peer) const override;

 private:
  struct Peer {
    Peer(int rank, const UcxPeer::Shared& shared) : ucx(rank, shared) {}

    UcxPeer ucx;
    bool greeted = false;
    bool broken = false;
    int unheard = 0;  // leave messages of this rank that the peer has not confirmed
  };

  // From the side channel.
  void Connected(int peer) override;
  bool Control(int peer, std::span<const std::byte> message) override;
  void Broken(int peer, const std::string& why) override;

  // Called by UCX, which does not support exceptions.
  static ucs_status_t Arrived(void* transport, const void* header, std::size_t header_bytes, void* data,
                              std::size_t length, const ucp_am_recv_param_t* parameters) noexcept;

  Peer& At(int peer) const { return *peers_[static_cast<std::size_t>(peer)]; }
  void Say(int rank, const UcxMessage& message) { side_.Say(rank, Encode(message)); }
  void SayLeaving(int rank);
  bool AdvanceSide();
  bool AdvanceTroubles();
  bool AdvanceEnds();
  void Break(int rank, const std::string& why);

  int rank_;
  progress::NetworkTransportEvents& events_;
  std::vector<int> troubled_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank; null for those that it was not made for
  // Destroyed before the objects that its operations use.
  UcxWorker worker_;
  tcp::SideChannel side_;
  tcp::LastArrivals last_arrivals_;
  std::vector<int> starting_;  // begun, and neither up nor broken
  unsigned polls_ = 0;
  Deadline next_look_;  // at the side channel
  std::uint64_t strangers_ = 0;
  bool closed_ = false;
  Deadline patience_ = Deadline::Never();  // with peers that do not confirm this rank's leave message
};

}  // namespace tutti::ucx
