// The messages between ranks, the rendezvous and the hub in frames (frame.h), encoded and decoded. A decoder gives
// nullopt for anything that no encoder of this version makes; it never throws and never trusts a count.
//
// Thread-safety: pure functions and value types.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clocks/deadline.h"
#include "net/auth/handshake.h"
#include "net/socket.h"
#include "tutti/tutti.h"

namespace tutti::bootstrap {

// The process of a rank, for messages to people.
struct Process {
  std::string host;
  std::int64_t pid = 0;

  static Process Current();
  friend bool operator==(const Process&, const Process&) = default;
};
// "rank 3 (host node7, pid 4711)"
std::string Describe(int rank, const Process& process);
// "ranks 1, 4 and 5", a few at most.
std::string DescribeRanks(const std::vector<int>& ranks);
// "0.1.0"
std::string VersionText(std::uint32_t version_code);

// A rank to the rendezvous. The version comes first and alone decides how the rest is read.
struct JoinRequest {
  std::uint32_t version = TUTTI_VERSION_CODE;
  Process process;
  std::vector<net::SocketAddress> hub;  // rank 0: where it listens for the others

  friend bool operator==(const JoinRequest&, const JoinRequest&) = default;
};
// From a rank to the rendezvous or the hub: my deadline has passed, name the missing ranks.
struct TimeoutQuery {
  friend bool operator==(const TimeoutQuery&, const TimeoutQuery&) = default;
};
// The rank then waits this long for the answer. The thread that gives it may have to wait for a core: 80 ms were once too
// few on a machine of two cores that ran three tests.
inline constexpr Deadline::Milliseconds kLastAnswer{500};
// From the rendezvous to a rank: every rank has arrived, or the reason why joining fails.
struct Verdict {
  tuttiResult_t code = tuttiSuccess;
  std::string message;
  // On success:
  std::array<std::byte, 16> session{};
  std::vector<net::SocketAddress> hub;
  std::vector<Process> roster;  // by rank

  friend bool operator==(const Verdict&, const Verdict&) = default;
};
// A rank to the hub: its part of an all-gather.
struct Contribution {
  std::uint64_t sequence = 0;
  std::vector<std::byte> blob;

  friend bool operator==(const Contribution&, const Contribution&) = default;
};
// The hub to a rank: a run of parts, those of ranks first, first + 1, ...
struct Parts {
  std::uint64_t sequence = 0;
  std::uint32_t first = 0;
  std::vector<std::vector<std::byte>> blobs;

  friend bool operator==(const Parts&, const Parts&) = default;
};
// From the hub to a rank, or by way of the rendezvous to a rank that has not reached the hub: the hub failed. From a
// rank to the hub: the rank no longer takes part.
struct Failure {
  tuttiResult_t code = tuttiInternalError;
  std::string message;

  friend bool operator==(const Failure&, const Failure&) = default;
};

std::vector<std::byte> Encode(const JoinRequest& message);
std::vector<std::byte> Encode(const TimeoutQuery& message);
std::vector<std::byte> Encode(const Verdict& message);
std::vector<std::byte> Encode(const Contribution& message);
std::vector<std::byte> Encode(const Parts& message);
std::vector<std::byte> Encode(const Failure& message);

// For a request of another version, only the version is set.
std::optional<JoinRequest> DecodeJoinRequest(std::span<const std::byte> payload);
std::optional<TimeoutQuery> DecodeImpatience(std::span<const std::byte> payload);
std::optional<Verdict> DecodeVerdict(std::span<const std::byte> payload);
std::optional<Contribution> DecodeContribution(std::span<const std::byte> payload);
std::optional<Parts> DecodeParts(std::span<const std::byte> payload);
std::optional<Failure> DecodeFailure(std::span<const std::byte> payload);

}  // namespace tutti::bootstrap
