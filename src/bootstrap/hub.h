// The centre of a control plane's star, in rank 0's process: admits the other ranks, collects one blob from each, and
// gives all blobs to every rank.
//
// Ranks are admitted while the first all-gather collects, so meeting and exchanging is one wait with one deadline.
// Thread-safety: one call at a time.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clocks/deadline.h"
#include "base/error.h"
#include "net/auth/channel.h"
#include "net/auth/handshake_pool.h"
#include "src/bootstrap/join_messages.h"
#include "src/bootstrap/shared_channel.h"

namespace tutti::bootstrap {

class Hub {
 public:
  using Blob = std::vector<std::byte>;

  // `roster` by rank, this process first. `handshakes` serves Purpose::hub. `rendezvous` reports ranks that leave
  // before they reach the hub, and passes on a failure: every rank keeps its connection to it until the first
  // all-gather has ended.
  Hub(std::vector<Process> roster, auth::HandshakePool handshakes, auth::SecureChannel rendezvous);
  // For ranks that have connections already. `members`: one for each rank from 1 on, in order.
  Hub(std::vector<Process> roster, std::vector<Subchannel> members);

  // Returns every rank's blob. Before it throws, it sends every member the reason. Dead afterwards.
  std::vector<Blob> AllGather(std::uint64_t sequence, std::span<const std::byte> mine, Deadline deadline,
                              Cancellation cancel);
  // Informs every member that this exchange, or the next one, fails. Does not wait long for any of them.
  void Tell(const Failure& failure);
  void Shutdown();
  // REQUIRES: an exchange has ended; rank > 0.
  const std::shared_ptr<SharedChannel>& ConnectionTo(int rank) const {
    return members_[static_cast<std::size_t>(rank)].channel->shared();
  }

 private:
  struct Member {
    std::optional<Subchannel> channel;  // empty until it arrives
    std::optional<Blob> part;           // of the current all-gather
    std::size_t given = 0;              // parts already sent to it
  };

  void Collect(std::uint64_t sequence, Deadline deadline, Cancellation cancel);
  void Listen(std::uint64_t sequence, int rank);
  void HearRendezvous();
  void Admit(std::vector<auth::Admitted>& admitted);
  void Distribute(std::uint64_t sequence, const std::vector<Blob>& blobs, Deadline deadline, Cancellation cancel);
  void Give(std::uint64_t sequence, const std::vector<Blob>& blobs, Member& member);
  [[noreturn]] void ThrowMissing(const std::string& where) const;
  std::string Describe(int rank) const { return bootstrap::Describe(rank, roster_[static_cast<std::size_t>(rank)]); }
  Member& member(int rank) { return members_[static_cast<std::size_t>(rank)]; }

  std::vector<Process> roster_;
  // Until all members have arrived:
  std::optional<auth::HandshakePool> handshakes_;
  std::optional<auth::SecureChannel> rendezvous_;
  std::vector<Member> members_;  // by rank; the first is this process itself and has no channel
  std::size_t missing_ = 0;      // parts of the current all-gather
};

}  // namespace tutti::bootstrap
