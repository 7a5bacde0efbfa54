// The control plane of a communicator, kept open for its life: small collectives over TCP, before and alongside the
// fast transports. A star: rank 0's process is its hub (hub.h); each other rank holds one proven connection to it. A
// control plane for some of the ranks uses connections that these have already (Derive).
//
// A failing call sends the reason to the other ranks, as far as they can be reached, and leaves the control plane dead:
// every later call throws the same error. No thread watches the connections between calls: the next call notices and
// names a rank that died. Thread-safety: REQUIRES one call at a time. Belongs to the process that made it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clocks/deadline.h"
#include "base/error.h"
#include "base/settings/settings.h"
#include "base/threads/cancellation.h"
#include "net/auth/channel.h"
#include "src/bootstrap/hub.h"
#include "src/bootstrap/join_messages.h"
#include "src/bootstrap/shared_channel.h"
#include "src/bootstrap/unique_id.h"

namespace tutti::bootstrap {

class ControlPlane {
 public:
  static constexpr std::size_t kMaxBlob = std::size_t{1} << 20;

  using Blob = std::vector<std::byte>;

  // Meets the other ranks: returns when all nranks have arrived and are connected. Throws tuttiTimeoutError naming the
  // missing ranks; tuttiInvalidUsage when nranks or library versions disagree or a rank is taken twice (naming both),
  // or on cancellation; tuttiRemoteError when a rank leaves before the end; tuttiInvalidArgument for a rank outside
  // 0..nranks-1. Here and below, `cancel` is polled every kCancelPeriod. `arrived` is called when the rendezvous knows this
  // rank: from then on it tells the others if this rank ends.
  static std::unique_ptr<ControlPlane> Join(const JoinTicket& ticket, int nranks, int rank, const Settings& settings,
                                            Deadline deadline, Cancellation cancel = {},
                                            const std::function<void()>& arrived = {});
  // Whether this rank has connections to all these ranks, and so can be the first of them in Derive().
  bool Reaches(const std::vector<int>& ranks) const;
  // The control plane of `members`, ranks of this one by their rank in the new one, over connections that they have.
  // Without an exchange: a rank that does not come shows at the first one. `number`: equal on all members, and fresh.
  // Throws tuttiInternalError where this rank has no connection to the first member, or as net::ChooseAddresses.
  // REQUIRES: the first member reaches all others.
  std::unique_ptr<ControlPlane> Derive(const std::vector<int>& members, std::uint64_t number,
                                       const Settings& settings) const;
  // The connections of `child`, whose ranks are `members`, and were connected anew, serve those that derive from this
  // one, too.
  void Adopt(ControlPlane& child, const std::vector<int>& members) const;
  // Closes the connections, which the other ranks notice; does not wait for them.
  ~ControlPlane();
  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(roster_.size()); }
  // The process of each rank, by rank.
  const std::vector<Process>& roster() const { return roster_; }

  // This rank's addresses at which the others can call it, without ports.
  const std::vector<net::SocketAddress>& places() const { return places_; }
  // Key of the data connections' handshake, which only the ranks of this meeting have.
  const auth::SecretKey& data_key() const { return data_key_; }

  // Collective: every rank's bytes, by rank; lengths may differ. REQUIRES: mine.size() <= kMaxBlob. Throws
  // tuttiTimeoutError naming the ranks that did not arrive, tuttiRemoteError naming the rank, host and process that is
  // gone, tuttiInvalidUsage on cancellation.
  std::vector<Blob> AllGather(std::span<const std::byte> mine, Deadline deadline, Cancellation cancel = {});
  // Ends this rank's participation and sends the others the reason, with which their current or next exchange fails.
  // Does not wait. Does nothing if the control plane is dead; leaves it dead.
  void Refuse(const Error& why) noexcept;
  bool dead() const { return failure_.has_value(); }
  // Collective: returns after every rank has arrived.
  void Barrier(Deadline deadline, Cancellation cancel = {}) { AllGather({}, deadline, cancel); }

 private:
  ControlPlane(int rank, std::vector<Process> roster);

  void KeepConnections();

  std::vector<Blob> GatherAsMember(std::span<const std::byte> mine, Deadline deadline, Cancellation cancel = {});
  void Shutdown();

  int rank_;
  std::vector<Process> roster_;
  pid_t owner_;
  bool stays_on_loopback_ = false;
  std::vector<net::SocketAddress> places_;
  auth::SecretKey data_key_;
  std::uint64_t sequence_ = 0;
  std::optional<Error> failure_;
  std::optional<Hub> hub_;            // rank 0
  std::optional<Subchannel> to_hub_;  // the others
  // The connections of this rank in the communicator in which its ranks first met, and by rank the places there.
  std::shared_ptr<SharedChannels> channels_ = std::make_shared<SharedChannels>();
  std::vector<int> first_ranks_;
};

}  // namespace tutti::bootstrap
