// What transports with a side channel share: which peers are connected, leaving or gone, and in which order that is found
// out. A transport over it is a kind of peer, and a function that moves what is on its way.
//
// The means of such a transport prove nothing about who is at the other end, and report late or not at all that a process
// has ended. So ranks learn over the side channel how to reach each other, that one leaves, and that one is gone.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/all_gather.h"
#include "base/clocks/deadline.h"
#include "base/settings/settings.h"
#include "net/auth/secret_key.h"
#include "transports/progress/network_transport.h"
#include "transports/side/channel.h"
#include "transports/side/last_arrivals.h"
#include "transports/side/messages.h"
#include "transports/side/peer.h"

namespace tutti::side {

class Transport : public progress::NetworkTransport, private ChannelEvents {
 public:
  void Connect(int peer) final;
  int Room(int peer) const final { return At(peer).broken ? 0 : At(peer).own->Room(); }
  void Send(int peer, const progress::SlotMessage& message, const std::byte* data) final {
    At(peer).own->Send(message, data);
  }
  void SendControl(int peer, std::span<const std::byte> message) final;
  void Flush(int peer) final { At(peer).own->Flush(); }
  bool Advance() final;
  void LookForSilence() override { channel_->LookForSilence(); }
  int descriptor() const final { return channel_->descriptor(); }
  Deadline::Milliseconds LongestWait() const final;
  bool PrepareToSleep() final { return !AdvanceChannel() && Arm() && troubled_.empty(); }
  void Abandon(int peer) override;
  void Close() final;
  bool Reaches(int peer) const final { return channel_->Reaches(peer); }
  bool Delivered(int peer) const final;

 protected:
  // Collective over all ranks; throws what tcp::TcpTransport throws. `name`: of the means, for the log. `patience`: the
  // longest that a leaving rank waits until its peers confirm what it sent; one that computes does not. 0: the transport
  // knows what has arrived, and has no leave messages.
  Transport(std::string name, int rank, const std::vector<int>& peers, const auth::SecretKey& key,
            const Settings& settings, const AllGather& all_gather, progress::NetworkTransportEvents& events,
            Deadline::Milliseconds patience);

  // Moves what is on its way. True: something moved.
  virtual bool Move() = 0;
  // Before a thread sleeps: from now on, the descriptors that the channel watches show what Move() would move. False:
  // there is something already.
  virtual bool Arm() = 0;

  int rank() const { return rank_; }
  Channel& channel() { return *channel_; }
  Peer::Shared shared() { return {*channel_, events_, troubled_}; }
  void Add(std::unique_ptr<Peer> peer);
  // For destructors. A peer sees first that the channel is closed, which is a better reason than what other means report.
  void CloseChannel() { channel_.reset(); }
  // For a transport whose own members the peers use.
  void DropPeers() { peers_.clear(); }
  // The ranks of all peers, and one of them.
  const std::vector<int>& known() const { return known_; }
  Peer& Own(int peer) const { return *At(peer).own; }
  // Null: there is none of this rank.
  Peer* Find(std::size_t rank) const { return rank < peers_.size() ? peers_[rank].own.get() : nullptr; }
  // Ranks whose connection has begun, and not ended.
  const std::vector<int>& active() const { return active_; }
  // Peers have failed since Advance() last looked.
  bool troubled() const { return !troubled_.empty(); }
  // Tells the peer, if it can still be told, and ends the connection.
  void GiveUp(int peer, const std::string& why);
  void Break(int peer, std::string why);
  // Whether this rank has left and peers have not yet confirmed what it sent, or may still need something of it.
  bool AwaitsPeers() const;

 private:
  struct Known {
    std::unique_ptr<Peer> own;  // null: the transport was not made for this rank
    bool begun = false;
    bool greeted = false;
    bool told = false;  // that it has failed
    bool broken = false;
    std::optional<std::uint64_t> announced;  // by this rank's latest leave message
    int unheard = 0;                         // leave messages of this rank that the peer has not confirmed
    int unconfirmed = 0;                     // leave messages of the peer that this rank has not confirmed
  };

  // From the side channel.
  void Connected(int peer) final;
  bool Control(int peer, std::span<const std::byte> message) final;
  void Broken(int peer, const std::string& why) final;

  Known& At(int peer) { return peers_[static_cast<std::size_t>(peer)]; }
  const Known& At(int peer) const { return peers_[static_cast<std::size_t>(peer)]; }
  void Say(int peer, const Message& message) { channel_->Say(peer, Encode(message)); }
  void Begin(int peer);
  void SayLeaving(int peer);
  void TellFailure(int peer);
  bool AdvanceChannel();
  bool Confirm();
  bool AdvanceTroubles();
  bool AdvanceEnds();
  void Await(int peer, const std::string& why);

  std::string name_;
  int rank_;
  progress::NetworkTransportEvents& events_;
  Deadline::Milliseconds most_patience_;  // 0: there are no leave messages
  std::vector<int> troubled_;
  std::optional<Channel> channel_;
  std::vector<Known> peers_;  // by rank
  std::vector<int> known_;
  std::vector<int> active_;
  std::vector<int> starting_;    // begun, and neither up nor broken
  std::vector<int> confirming_;  // have leave messages that this rank has not confirmed
  LastArrivals last_arrivals_;
  unsigned polls_ = 0;
  Deadline next_look_;  // at the channel
  bool closed_ = false;
  Deadline patience_ = Deadline::Never();  // with peers that do not confirm this rank's leave message
};

}  // namespace tutti::side
