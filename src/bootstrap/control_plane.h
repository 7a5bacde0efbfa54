// The control plane of a communicator, kept open for its life: small collectives over TCP, before and beside the fast
// transports. A star: rank 0's process is its hub (hub.h), the others hold one proven connection to it.
//
// A call that fails tells the other ranks why, as far as they can still be reached, and leaves the control plane dead:
// every later call throws the same error. Nobody watches the connections between calls: a rank that dies then is
// noticed by the next call, which names it. Thread-safety: REQUIRES one call at a time. Belongs to the process that
// made it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/cancellation.h"
#include "base/deadline.h"
#include "base/error.h"
#include "base/settings.h"
#include "net/auth/channel.h"
#include "src/bootstrap/hub.h"
#include "src/bootstrap/join_messages.h"
#include "src/bootstrap/unique_id.h"

namespace tutti {

class ControlPlane {
 public:
  static constexpr std::size_t kMaxBlob = std::size_t{1} << 20;

  using Blob = std::vector<std::byte>;

  // Meets the other ranks: returns when all nranks have come and are connected. Throws tuttiTimeoutError naming the
  // missing ranks; tuttiInvalidUsage when nranks or library versions disagree or a rank is taken twice (naming both),
  // or on cancellation; tuttiRemoteError when a rank leaves meanwhile; tuttiInvalidArgument for a rank outside
  // 0..nranks-1. `cancel` is looked at every kCancelPeriod, here and below.
  static std::unique_ptr<ControlPlane> Join(const JoinTicket& ticket, int nranks, int rank, const Settings& settings,
                                            Deadline deadline, Cancellation cancel = {});
  // Tells the others by closing the connections; waits for nobody.
  ~ControlPlane();
  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(roster_.size()); }
  // Who the ranks are, by rank.
  const std::vector<Process>& roster() const { return roster_; }

  // Addresses of this rank's at which the others can call it, without ports.
  const std::vector<SocketAddress>& places() const { return places_; }
  // Of the data connections' handshake: all ranks of this meeting have it, and nobody else.
  const SecretKey& data_key() const { return data_key_; }

  // Collective: every rank's bytes, by rank; lengths may differ. REQUIRES: mine.size() <= kMaxBlob. Throws
  // tuttiTimeoutError naming the ranks that did not come, tuttiRemoteError naming the rank, host and process that is
  // gone, tuttiInvalidUsage on cancellation.
  std::vector<Blob> AllGather(std::span<const std::byte> mine, Deadline deadline, Cancellation cancel = {});
  // This rank takes part no more. It tells the others why, and they fail with that in their current or next exchange.
  // Does not wait. Does nothing if the control plane is dead; it is afterwards.
  void Refuse(const Error& why) noexcept;
  bool dead() const { return failure_.has_value(); }
  // Collective: returns after every rank has come.
  void Barrier(Deadline deadline, Cancellation cancel = {}) { AllGather({}, deadline, cancel); }

 private:
  ControlPlane(int rank, std::vector<Process> roster);

  std::vector<Blob> GatherAsMember(std::span<const std::byte> mine, Deadline deadline, Cancellation cancel = {});
  void Shutdown();

  int rank_;
  std::vector<Process> roster_;
  pid_t owner_;
  std::vector<SocketAddress> places_;
  SecretKey data_key_;
  std::uint64_t sequence_ = 0;
  std::optional<Error> failure_;
  std::optional<Hub> hub_;               // rank 0
  std::optional<SecureChannel> to_hub_;  // the others
};

}  // namespace tutti
