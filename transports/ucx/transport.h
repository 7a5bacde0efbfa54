// The UCX transport: slots and short messages are active messages of UCX, over any networks that it finds between two
// hosts. UCX proves nothing: any process that reaches a worker can send to it. So workers' addresses travel only over
// the side channel, which has proven the job's secret, together with a random token for each direction of each pair of
// ranks. A message without the sender's token is dropped, and no peer learns of it.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "base/all_gather.h"
#include "base/settings/settings.h"
#include "net/auth/secret_key.h"
#include "transports/side/transport.h"
#include "transports/ucx/peer.h"

namespace tutti::ucx {

class UcxTransport final : public side::Transport {
 public:
  // Collective over all ranks. Throws what UcxWorker and side::Transport throw.
  UcxTransport(int rank, const std::vector<int>& peers, const auth::SecretKey& key, const Settings& settings,
               const AllGather& all_gather, progress::NetworkTransportEvents& events);
  ~UcxTransport() override;

  // The address at which UCX reaches this rank; only peers get it.
  const std::vector<std::byte>& address() const { return worker_.address(); }

  void Abandon(int peer) override;

 private:
  bool Move() override;
  bool Arm() override { return worker_.Arm(); }

  // Called by UCX, which does not support exceptions.
  static ucs_status_t Arrived(void* transport, const void* header, std::size_t header_bytes, void* data,
                              std::size_t length, const ucp_am_recv_param_t* parameters) noexcept;

  // Waits a little until UCX has given up what was on its way to a peer that was stopped, or to all.
  template <typename Settled>
  void Settle(Settled&& settled);

  // Destroyed before the peers, which its operations use.
  UcxWorker worker_;
  std::uint64_t strangers_ = 0;
};

}  // namespace tutti::ucx
