// The transport over a network plug-in of NCCL. A plug-in proves nothing about who is at the other end, so where ranks
// listen travels only over the side channel, which has proven the job's secret, together with a random token for each
// direction of each pair of ranks: connections that do not begin with it are not used.
//
// A plug-in offers nothing to wait for, so a thread that sleeps wakes up now and then to ask: soon at first, then each
// millisecond.
//
// Thread-safety: one thread at a time.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/all_gather.h"
#include "base/file_descriptor.h"
#include "base/settings.h"
#include "net/auth/secret_key.h"
#include "transports/plugin/messages.h"
#include "transports/plugin/peer.h"
#include "transports/progress/network_transport.h"
#include "transports/tcp/side_channel.h"

namespace tutti::plugin {

// A communicator's context in the plug-in.
class Context {
 public:
  // Throws tuttiSystemError.
  Context(std::shared_ptr<const Library> library, std::uint64_t communicator);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();

  const Library& library() const { return *library_; }
  void* get() const { return context_; }

 private:
  std::shared_ptr<const Library> library_;
  void* context_ = nullptr;
};

class PluginTransport final : public progress::NetworkTransport, private tcp::SideEvents {
 public:
  // Collective over all ranks. Throws what LoadPlugin and TcpTransport throw, and tuttiInvalidUsage if ranks have
  // different plug-ins.
  PluginTransport(int rank, const std::vector<int>& peers, const auth::SecretKey& key, const Settings& settings,
                  const AllGather& all_gather, progress::NetworkTransportEvents& events);
  // After Close(), waits a little until the peers confirm what was sent.
  ~PluginTransport() override;

  double bandwidth() const override;
  void Connect(int peer) override;
  int Room(int peer) const override { return At(peer).plugin.Room(); }
  void Send(int peer, const progress::SlotMessage& message, const std::byte* data) override {
    At(peer).plugin.Send(message, data);
  }
  void SendControl(int peer, std::span<const std::byte> message) override;
  void Flush(int peer) override { At(peer).plugin.Flush(); }
  bool Advance() override;
  void LookForSilence() override { side_.LookForSilence(); }
  int descriptor() const override { return side_.descriptor(); }
  Deadline::Milliseconds LongestWait() const override;
  bool PrepareToSleep() override;
  void Register(const std::byte* begin, std::size_t bytes) override;
  void Deregister(const std::byte* begin, std::size_t bytes) override;
  void Abandon(int peer) override;
  void Close() override;
  bool Reaches(int peer) const override { return side_.Reaches(peer); }
  bool Delivered(int peer) const override;

 private:
  struct Peer {
    Peer(int rank, const plugin::Peer::Shared& shared) : plugin(rank, shared) {}

    plugin::Peer plugin;
    bool greeted = false;
    bool broken = false;
    int unheard = 0;      // leave messages of this rank that the peer has not confirmed
    int unconfirmed = 0;  // leave messages of the peer that this rank has not confirmed
  };

  // From the side channel.
  void Connected(int peer) override;
  bool Control(int peer, std::span<const std::byte> message) override;
  void Broken(int peer, const std::string& why) override;

  Peer& At(int peer) const { return *peers_[static_cast<std::size_t>(peer)]; }
  void Say(int rank, const SideMessage& message) { side_.Say(rank, Encode(message)); }
  void SayLeaving(int rank);
  bool AdvanceSide();
  bool AdvancePeers();
  bool AdvanceTroubles();
  bool AdvanceEnds();
  void Break(int rank, const std::string& why);

  int rank_;
  progress::NetworkTransportEvents& events_;
  std::shared_ptr<const Context> context_;
  const Device& device_;
  UserRanges user_ranges_;
  std::vector<int> troubled_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank; null for those that it was not made for
  std::vector<int> active_;                   // greeted and not broken
  tcp::SideChannel side_;
  tcp::LastArrivals last_arrivals_;
  FileDescriptor alarm_;
  std::chrono::microseconds nap_;
  unsigned polls_ = 0;
  Deadline next_look_;  // at the side channel
  bool closed_ = false;
  Deadline patience_ = Deadline::Never();  // with peers that do not confirm this rank's leave message
};

}  // namespace tutti::plugin
