// The progress engine: moves the slots of all connections to ranks of other hosts, over one transport for each pair.
//
// It has no thread: the thread that waits for this rank's operations calls Progress(). That is enough, because an
// operation returns only when the system has everything that it sent, and data that arrives in between waits in the
// system, bounded by the rings' windows (network_rings.h). So an idle communicator costs nothing. A GPU's kernels
// cannot call Progress() and are done when their slots are filled, so a proxy thread calls it (src/device/proxy.h).
//
// Several threads may drive it, and sleep on it, at once. Each sleeper has its own bell. A thread rings the other bells
// when a slot has landed or is sent, and when it has heard this rank's bell (executors/host/doorbell.h).
//
// Thread-safety: every function may be called from any thread; Progress() does nothing while another thread runs it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clocks/deadline.h"
#include "base/error.h"
#include "base/file_descriptor.h"
#include "transports/progress/network_peer.h"
#include "transports/progress/network_transport.h"
#include "transports/shm/fabric.h"

namespace tutti::progress {

class NetworkEngine final : private NetworkTransportEvents {
 public:
  // Makes a transport, which reports to `events` about the peers it was made for.
  using MakeTransport = std::function<std::unique_ptr<NetworkTransport>(NetworkTransportEvents& events)>;

  // Rings to and from a peer, besides the fabric's, whose fillers do not notify the engine.
  using PolledRings = std::function<std::vector<ConnectionRings>(int peer)>;

  // `peers`: all ranks of other hosts. The fabric outlives this engine, and this engine every use of its rings.
  NetworkEngine(shm::Fabric& fabric, const std::vector<int>& peers, const MakeTransport& make,
                const PolledRings& polled = nullptr);
  ~NetworkEngine() override;
  NetworkEngine(const NetworkEngine&) = delete;
  NetworkEngine& operator=(const NetworkEngine&) = delete;

  // See NetworkTransport.
  double bandwidth() const { return transport_->bandwidth(); }
  bool lands_in_place() const { return transport_->lands_in_place(); }
  // Ensures connections to and from `peer`, for a plan that uses them.
  void Need(int peer);
  // Likewise, and its `index`-th polled ring is looked at from now on: the others are not, so that they cost nothing.
  // REQUIRES: there is memory for that connection's rings.
  void NeedPolled(int peer, int index);
  // Likewise for all peers, which reveals those that are gone.
  void NeedAll();
  // Moves what can be moved. True: something moved.
  bool Progress();
  // The half of Progress() that peers may wait for: sends filled slots, and credits for emptied ones. Waits for another
  // thread that is at work here, because the caller will not come back.
  bool Push();
  // A slot that a call will read, and where it wants the data.
  struct Expected {
    SlotMessage slot;
    std::byte* destination;
  };
  // Data that come afterwards arrive there, where the transport can, and the slot then refers to them (SlotKind::pointer). The
  // memory is the network's until the slot has landed, or Recall(). At most kRunAhead successive slots. False: another thread
  // is at work here, and nothing was noted.
  bool Expect(int peer, std::span<const Expected> slots);
  // Announces this rank's operations to peers. Called by threads that wait long.
  void Announce();
  // Looks for peers that have stopped answering. Called likewise.
  void LookForSilence();
  // Between these two calls the calling thread gets every ring of this rank's bell, even one that comes before Sleep().
  // Returns the thread's own bell.
  int TakeBell();
  void ReturnBell(int bell);
  // Moves what can be moved; if nothing moves, waits until Progress() may have something to do, or this rank's bell
  // rings. False: `limit` has passed.
  bool Sleep(int bell, std::chrono::microseconds limit);
  bool Sleep(std::chrono::microseconds limit);

  // This rank's memory that slots may refer to: see NetworkTransport.
  void Register(const std::byte* begin, std::size_t bytes);
  void Deregister(const std::byte* begin, std::size_t bytes);

  // Why nothing more will come from `peer`, for a person: "its connection was closed", also when it has left in order.
  // None while more may come.
  std::optional<std::string> Lost(int peer);
  // See NetworkTransport.
  bool Reaches(int peer);

  // Tells all connected peers that this rank's communicator has failed, and refuses the others. It also calls the peers
  // at a distance of 1, 2, 4, ... ranks, both ways, that it was never connected to. Those are all ranks in a job of up
  // to 5 ranks, and 2 log2(n) of n, so that simultaneous failures of many ranks cause no flood.
  // `stopped`: this rank wants it (ring::RankState).
  void TellFailure(tuttiResult_t code, const std::string& text, bool stopped);
  // Takes back the memory that this rank's slots refer to, or that expected ones go to: when this returns, the network uses
  // none of it, and a connection that still needs some is abandoned. REQUIRES: the communicator has failed.
  void Recall();
  // Tells them that this rank has left, and ensures that everything sent or filled before arrives.
  void Leave();

 private:
  void Connected(int peer) override { Activate(Peer(peer)); }
  std::byte* Landing(int peer, const SlotMessage& message) override { return Peer(peer).Landing(message); }
  std::byte* LandingInPlace(int peer, const SlotMessage& message) override {
    return Peer(peer).LandingInPlace(message);
  }
  void Landed(int peer, const SlotMessage& message) override {
    Peer(peer).Landed(message);
    news_ = true;
  }
  void Sent(int peer, std::uint32_t connection, std::uint32_t number) override {
    Peer(peer).Sent(connection, number);
    news_ = true;
  }
  bool Control(int peer, std::span<const std::byte> message) override;
  ConnectionMemory Memory(int peer, std::uint32_t connection) override { return Peer(peer).Memory(connection); }
  std::shared_ptr<const void> MemoryOwner(int peer, std::uint32_t connection) override {
    return Peer(peer).MemoryOwner(connection);
  }
  void Broken(int peer, const std::string& why) override;

  // The bell of a thread that sleeps or is about to.
  struct Bell {
    FileDescriptor event;
    bool taken = false;
    bool rung = false;
  };

  NetworkPeer& Peer(int rank) const { return *peers_[static_cast<std::size_t>(rank)]; }
  void Activate(NetworkPeer& peer);
  // Calls `say` for each peer that can still receive.
  template <typename Do>
  void ForHearing(Do&& say);
  // REQUIRES: locked. Wakes all sleepers except `but`.
  void RingBells(int but = -1);
  // Wakes sleepers, which may wait for what has landed or was sent.
  void RingForNews();
  bool PumpSlots();
  void PumpCredits();
  bool ShowKept();
  bool Advance();
  void ActivateNeighbours();
  // Sends to every peer that can still receive, then works until `done` or the deadline.
  template <typename Done>
  void SayLast(const NetworkMessage& message, Deadline deadline, Done&& done);

  shm::Fabric& fabric_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<NetworkPeer>> peers_;  // by rank; null for those of this host
  std::vector<NetworkPeer*> active_;                 // connected, or about to be
  std::vector<Bell> bells_;                          // one for each thread that ever slept at the same time
  bool news_ = false;                                // something landed or was sent, and was not rung for yet
  std::unique_ptr<NetworkTransport> transport_;
};

}  // namespace tutti::progress
