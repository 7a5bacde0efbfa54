#include "src/bootstrap/rendezvous/rendezvous_state.h"

#include <algorithm>

#include "base/log.h"

namespace tutti::bootstrap {
namespace {

// A program may make its unique id long before its ranks are ready to join (they may first load models).
constexpr Deadline::Milliseconds kUnused = std::chrono::hours(1);
// The ranks' own deadlines come first; this covers stopped ranks, which cannot even give up.
constexpr Deadline::Milliseconds kSlack = std::chrono::seconds(10);
// Every rank has its verdict; waits for the ranks to close only so that no message is cut off.
constexpr Deadline::Milliseconds kSuccessLinger = std::chrono::seconds(5);
// A rank that arrives after the failure gets its reason instead of a closed port.
constexpr Deadline::Milliseconds kFailureLinger = std::chrono::seconds(30);
// A rank that missed the end of its handshake calls again at once.
constexpr Deadline::Milliseconds kSecondCall = std::chrono::seconds(1);

}  // namespace

RendezvousState::RendezvousState(auth::HandshakePool handshakes, Deadline::Milliseconds patience)
    : handshakes_(std::move(handshakes)),
      patience_(patience),
      deadline_(Deadline::After(std::max(kUnused, patience))) {}

void RendezvousState::Watch(std::vector<pollfd>& fds) const {
  handshakes_.Watch(fds);
  for (const auto& joining : joining_) fds.push_back(joining.channel.Watch());
}

Deadline RendezvousState::NextDeadline() const {
  auto next = std::min(handshakes_.NextDeadline(), deadline_);
  for (const auto& [rank, until] : lost_) {
    if (!verdict_) next = std::min(next, until);
  }
  return next;
}

void RendezvousState::Advance(std::span<const pollfd> fds) {
  const auto handshake_fds = fds.first(handshakes_.watched());
  // Reads all messages before any departure counts: one rank may leave because of another's message.
  auto event = fds.begin() + static_cast<std::ptrdiff_t>(handshake_fds.size());
  for (auto& joining : joining_) {
    if ((event++)->revents == 0) continue;
    joining.channel.Flush();
    Listen(joining);
  }
  for (auto joining = joining_.begin(); joining != joining_.end();) {
    if (!joining->channel.closed()) {
      ++joining;
      continue;
    }
    const auto leaver = joining->rank;
    const bool joined = joining->joined;
    joining = joining_.erase(joining);
    if (joined) {
      TellOfLeaving(leaver);
    } else {
      lost_.try_emplace(leaver, Deadline::After(kSecondCall));
    }
  }
  std::vector<auth::Admitted> admitted;
  handshakes_.Advance(handshake_fds, admitted);
  for (auto& one : admitted) {
    lost_.erase(one.rank);
    joining_.push_back({std::move(one).OpenChannel(), one.rank, one.nranks});
  }
  for (const auto& [rank, until] : lost_) {
    if (!verdict_ && until.Passed()) {
      Fail(tuttiRemoteError,
           fmt::format("rank {} left before it had joined: its connection to the rendezvous ended", rank));
    }
  }

  if (!verdict_ && deadline_.Passed()) {
    if (joined_.empty()) {
      done_ = true;
    } else {
      Fail(tuttiTimeoutError, fmt::format("joining timed out: {}", DescribeMissing()));
    }
  }
  if (verdict_) {
    TellAll();
    const bool everybody = !joined_.empty() && told_.size() >= static_cast<std::size_t>(joined_.begin()->second.nranks);
    if ((everybody && joining_.empty()) || deadline_.Passed()) done_ = true;
  }
}

void RendezvousState::Close() {
  handshakes_.Close();
  for (auto& joining : joining_) joining.channel.Shutdown();
  joining_.clear();
  done_ = true;
}

void RendezvousState::Listen(JoiningRank& joining) {
  while (const auto frame = joining.channel.Receive()) {
    if (const auto failure = DecodeFailure(*frame)) {
      verdict_ ? Forward(*failure) : Fail(failure->code, failure->message);
      continue;
    }
    if (verdict_) continue;  // it will get the verdict
    if (DecodeImpatience(*frame) && joining.joined) {
      Fail(tuttiTimeoutError, fmt::format("joining timed out at {}: {}",
                                          Describe(joining.rank, joined_.at(joining.rank).process), DescribeMissing()));
    } else if (const auto request = DecodeJoinRequest(*frame); request && !joining.joined) {
      Join(joining, *request);
    } else {
      Fail(tuttiInternalError, fmt::format("rank {} sent the rendezvous a malformed message", joining.rank));
    }
  }
}

void RendezvousState::Join(JoiningRank& joining, const JoinRequest& request) {
  const auto newcomer = Describe(joining.rank, request.process);
  if (request.version != TUTTI_VERSION_CODE) {
    return Fail(tuttiInvalidUsage,
                fmt::format("{} uses Tutti {}, but the rendezvous uses Tutti {}: all ranks must load the same version",
                            newcomer, VersionText(request.version), VersionText(TUTTI_VERSION_CODE)));
  }
  if (!joined_.empty()) {
    const auto& [rank, first] = *joined_.begin();
    if (first.nranks != joining.nranks) {
      return Fail(tuttiInvalidUsage,
                  fmt::format("the ranks disagree on nranks: {} passed {}, {} passed {}", Describe(rank, first.process),
                              first.nranks, newcomer, joining.nranks));
    }
  }
  const auto [place, free] = joined_.try_emplace(joining.rank, Joined{request.process, joining.nranks});
  if (!free) {
    return Fail(tuttiInvalidUsage,
                fmt::format("rank {} of {} was taken twice: by {} and by {}", joining.rank, joining.nranks,
                            Describe(joining.rank, place->second.process), newcomer));
  }
  joining.joined = true;
  if (joining.rank == 0) hub_ = request.hub;
  Log(Subject::init, "rendezvous: {} joined, {} of {}", newcomer, joined_.size(), joining.nranks);
  deadline_ = Deadline::After(patience_ + kSlack);
  if (joined_.size() == static_cast<std::size_t>(joining.nranks)) Complete();
}

void RendezvousState::Complete() {
  Verdict verdict;
  auth::EnsureSodium();
  randombytes_buf(verdict.session.data(), verdict.session.size());
  verdict.hub = hub_;
  for (const auto& [rank, joined] : joined_) verdict.roster.push_back(joined.process);
  // Closes first, so that a rank's next job finds this port free or its own.
  handshakes_.Close();
  Decide(std::move(verdict), kSuccessLinger);
}

void RendezvousState::Fail(tuttiResult_t code, std::string message) {
  if (verdict_) return;
  Log(Subject::init, "rendezvous: {}", message);
  Verdict verdict;
  verdict.code = code;
  verdict.message = std::move(message);
  Decide(std::move(verdict), kFailureLinger);
}

void RendezvousState::Decide(Verdict verdict, Deadline::Milliseconds linger) {
  verdict_ = std::move(verdict);
  deadline_ = Deadline::After(linger);
}

// This process may end as soon as one of its own ranks has the verdict, and unsent messages are lost then.
template <typename Tell>
void RendezvousState::ForAllOwnLast(Tell&& tell) {
  const auto here = Process::Current();
  for (const bool own : {false, true}) {
    for (auto& joining : joining_) {
      if ((joining.joined && joined_.at(joining.rank).process == here) == own) tell(joining);
    }
  }
}

void RendezvousState::TellAll() {
  std::optional<std::vector<std::byte>> bytes;
  ForAllOwnLast([&](JoiningRank& joining) {
    if (joining.told) return;
    if (!bytes) bytes = Encode(*verdict_);
    joining.channel.Queue(*bytes);
    joining.told = true;
    told_.insert(joining.rank);
  });
}

void RendezvousState::TellOfLeaving(int rank) {
  auto message = fmt::format("{} left while ranks were joining: its process ended or gave up",
                             Describe(rank, joined_.at(rank).process));
  if (!verdict_) return Fail(tuttiRemoteError, std::move(message));
  Forward({tuttiRemoteError, std::move(message)});
}

void RendezvousState::Forward(const Failure& failure) {
  if (verdict_->code != tuttiSuccess || forwarded_) return;
  forwarded_ = true;
  TellAll();  // the verdict may be a moment old, and comes first
  const auto bytes = Encode(failure);
  ForAllOwnLast([&](JoiningRank& joining) { joining.channel.Queue(bytes); });
}

std::string RendezvousState::DescribeMissing() const {
  const int nranks = joined_.begin()->second.nranks;
  std::vector<int> missing;
  for (int rank = 0; rank < nranks; ++rank) {
    if (!joined_.contains(rank)) missing.push_back(rank);
  }
  return fmt::format("{} of {} never joined", DescribeRanks(missing), nranks);
}

}  // namespace tutti::bootstrap
