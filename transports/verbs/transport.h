// The verbs transport: slots and short messages go over reliable queue pairs, one to each peer on each of this rank's
// RDMA ports. A side channel connects the queue pairs and detects when a peer's process is gone. A device alone could
// not: it retries for seconds, only while something is being sent, and is not aware of processes.
//
// Thread-safety: one thread at a time.
#pragma once

#include <string>
#include <vector>

#include "base/all_gather.h"
#include "base/settings/settings.h"
#include "net/auth/secret_key.h"
#include "transports/side/transport.h"
#include "transports/verbs/peer.h"

namespace tutti::verbs {

class VerbsTransport final : public side::Transport {
 public:
  // Collective over all ranks. `nics`: see ChoosePorts. Throws what OpenRails() and side::Transport throw.
  VerbsTransport(int rank, const std::vector<int>& peers, const auth::SecretKey& key, const Settings& settings,
                 const std::vector<std::string>& nics, const AllGather& all_gather,
                 progress::NetworkTransportEvents& events);
  ~VerbsTransport() override { DropPeers(); }

  // The sum over the ports that this host's ranks use.
  double bandwidth() const override { return bandwidth_; }
  void LookForSilence() override;
  void Use(int peer, std::uint32_t connection) override { Verbs(peer).Use(connection); }
  void Register(const std::byte* begin, std::size_t bytes) override;
  void Deregister(const std::byte* begin, std::size_t bytes) override;

 private:
  VerbsTransport(Rails rails, int rank, const std::vector<int>& peers, const auth::SecretKey& key,
                 const Settings& settings, const AllGather& all_gather, progress::NetworkTransportEvents& events);

  bool Move() override;
  bool Arm() override;

  VerbsPeer& Verbs(int peer) const { return static_cast<VerbsPeer&>(Own(peer)); }
  bool PollRail(std::size_t rail);
  bool LookAtEvents();

  Settings settings_;
  Rails rails_;
  double bandwidth_ = 0;
  progress::RangeMap<RailRegions> registered_;
};

}  // namespace tutti::verbs
