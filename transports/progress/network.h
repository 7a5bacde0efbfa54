// The progress engine: moves the slots of all connections to ranks of other hosts, over one carrier for each pair.
//
// It has no thread: whoever waits for this rank's operations calls Progress(). That is enough, because an operation
// returns only when everything that it sent is with the system, and what arrives meanwhile waits there, bounded by the
// rings' depths. So an idle communicator costs nothing. For a GPU, whose kernels cannot call, and which is done when it
// has filled its slots, a thread does (src/device/proxy.h).
//
// Several threads may drive it, and sleep on it, at once. Each sleeper has a bell of its own. A thread rings the
// others' when a slot has landed or is sent, and when it has heard this rank's bell (executors/host/doorbell.h).
//
// Thread-safety: every function may be called from any thread; Progress() does nothing while another thread is at it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/error.h"
#include "transports/progress/carrier.h"
#include "transports/progress/network_peer.h"
#include "transports/shm/fabric.h"
#include "transports/shm/segment.h"

namespace tutti {

class NetworkEngine final : private CarrierEvents {
 public:
  // Makes a carrier, which tells `events` of the peers it was made for.
  using MakeCarrier = std::function<std::unique_ptr<Carrier>(CarrierEvents& events)>;

  // Rings to and from a peer beside the fabric's, whose slots nobody tells of.
  using PolledRings = std::function<std::vector<ConnectionRings>(int peer)>;

  // `peers`: of other hosts, all of them. The fabric uses this engine from now on, and no more when it is gone.
  NetworkEngine(Fabric& fabric, const std::vector<int>& peers, const MakeCarrier& make,
                const PolledRings& polled = nullptr);
  ~NetworkEngine() override;
  NetworkEngine(const NetworkEngine&) = delete;
  NetworkEngine& operator=(const NetworkEngine&) = delete;

  // See Carrier.
  double bandwidth() const { return carrier_->bandwidth(); }
  // A plan uses connections to or from `peer`: see to it that there are any.
  void Need(int peer);
  // Likewise for all peers, so that it turns out which of them are gone.
  void NeedAll();
  // Moves what can be moved. True: something was.
  bool Progress();
  // The half of Progress() that peers may wait for: sends what was filled, and tells peers what was emptied. Waits for
  // another thread that is at work here, because the caller will not come back.
  bool Push();
  // Tells peers what this rank is in. Called by who waits long.
  void Announce();
  // Looks for peers that have stopped answering. As above.
  void LookForSilence();
  // Between these two calls the calling thread hears every ring of this rank's bell, even one that comes before
  // Sleep(). Returns the thread's own bell.
  int TakeBell();
  void ReturnBell(int bell);
  // Moves what can be moved; if that is nothing, waits until Progress() may have something to do, or this rank's bell
  // rings. False: `limit` has passed.
  bool Sleep(int bell, std::chrono::microseconds limit);
  bool Sleep(std::chrono::microseconds limit);

  // This rank's memory that slots may refer to: see Carrier.
  void Register(const std::byte* begin, std::size_t bytes);
  void Deregister(const std::byte* begin, std::size_t bytes);

  // Why nothing more will come from `peer`, for a person: "its connection was closed", also when it has left in order.
  // None while something may.
  std::optional<std::string> Lost(int peer);
  // See Carrier.
  bool Reaches(int peer);

  // Tells all connected peers that this rank's communicator has failed, and turns the others away. It also calls the
  // peers at a distance of 1, 2, 4, ... ranks, both ways, that it was never connected to. Those are all ranks in a job
  // of up to 5 ranks, and 2 log2(n) of n, so that failures of many ranks at once are no flood.
  void TellFailure(tuttiResult_t code, const std::string& text);
  // Tells them that it has left, and sees to it that what was sent or filled before arrives.
  void Leave();

 private:
  void Connected(int peer) override { Activate(Peer(peer)); }
  std::byte* Landing(int peer, const SlotMessage& message) override { return Peer(peer).Landing(message); }
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
  void Broken(int peer, const std::string& why) override;

  // The bell of a thread that sleeps or is about to.
  struct Bell {
    FileDescriptor event;
    bool taken = false;
    bool rung = false;
  };

  NetworkPeer& Peer(int rank) const { return *peers_[static_cast<std::size_t>(rank)]; }
  void Activate(NetworkPeer& peer);
  // Peers that can still hear.
  template <typename Do>
  void ForHearing(Do&& say);
  // REQUIRES: locked. Wakes all sleepers except `but`.
  void RingBells(int but = -1);
  // Wakes sleepers, which may wait for what has landed or was sent.
  void RingForNews();
  bool PumpSlots();
  void PumpCredits();
  bool Advance();
  void ActivateNeighbours();
  // Tells every peer that can still hear, then works until `done` or the deadline.
  template <typename Done>
  void SayLast(const NetworkMessage& message, Deadline deadline, Done&& done);

  Fabric& fabric_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<NetworkPeer>> peers_;  // by rank; null for those of this host
  std::vector<NetworkPeer*> active_;                 // connected, or about to be
  std::vector<Bell> bells_;                          // one for each thread that ever slept at the same time
  bool news_ = false;                                // something landed or was sent, and was not rung for yet
  std::unique_ptr<Carrier> carrier_;
};

}  // namespace tutti
