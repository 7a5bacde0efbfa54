#include "src/bootstrap/hub.h"

#include <algorithm>

#include "net/auth/dial.h"

namespace tutti::bootstrap {
namespace {

// Parts are packed into frames of about this size: many small blobs share one frame, and at most one frame of big ones
// is queued for a member.
constexpr std::size_t kPackBytes = 64 * 1024;
// Informing members of a failure may not hold up the caller that failed.
constexpr Deadline::Milliseconds kFarewell{50};

}  // namespace

Hub::Hub(std::vector<Process> roster, auth::HandshakePool handshakes, auth::SecureChannel rendezvous)
    : roster_(std::move(roster)),
      handshakes_(std::move(handshakes)),
      rendezvous_(std::move(rendezvous)),
      members_(roster_.size()) {}

Hub::Hub(std::vector<Process> roster, std::vector<Subchannel> members)
    : roster_(std::move(roster)), members_(roster_.size()) {
  for (std::size_t i = 0; i < members.size(); ++i) members_[i + 1].channel.emplace(std::move(members[i]));
}

std::vector<Hub::Blob> Hub::AllGather(std::uint64_t sequence, std::span<const std::byte> mine, Deadline deadline,
                                      Cancellation cancel) {
  try {
    for (auto& member : members_) {
      member.part.reset();
      member.given = 0;
    }
    members_[0].part = Blob(mine.begin(), mine.end());
    missing_ = members_.size() - 1;
    Collect(sequence, deadline, cancel);
    if (handshakes_) {
      handshakes_->Close();
      handshakes_.reset();
      rendezvous_.reset();
    }
    std::vector<Blob> blobs;
    for (auto& member : members_) blobs.push_back(std::move(*member.part));
    Distribute(sequence, blobs, deadline, cancel);
    return blobs;
  } catch (const Error& error) {
    Tell(cancel.requested() ? Failure{tuttiRemoteError, fmt::format("{} was aborted", Describe(0))}
                            : Failure{error.code(), error.what()});
    throw;
  }
}

void Hub::Shutdown() {
  if (handshakes_) handshakes_->Close();
  for (auto& member : members_) {
    if (member.channel) member.channel->Shutdown();
  }
}

void Hub::Collect(std::uint64_t sequence, Deadline deadline, Cancellation cancel) {
  std::vector<pollfd> fds;
  std::vector<int> ranks;  // of the entries after the handshake pool's
  std::vector<Subchannel*> channels;
  for (;;) {
    for (int rank = 1; rank < static_cast<int>(members_.size()); ++rank) {
      if (member(rank).channel && member(rank).channel->waiting()) Listen(sequence, rank);
    }
    if (missing_ == 0) return;
    fds.clear();
    ranks.clear();
    channels.clear();
    if (handshakes_) handshakes_->Watch(fds);
    const auto strangers = fds.size();
    HearRendezvous();
    if (rendezvous_) fds.push_back(rendezvous_->Watch());
    const auto others = fds.size();
    for (int rank = 1; rank < static_cast<int>(members_.size()); ++rank) {
      if (!member(rank).channel) continue;
      fds.push_back(member(rank).channel->Watch());
      ranks.push_back(rank);
      channels.push_back(&*member(rank).channel);
    }
    const auto until = handshakes_ ? std::min(deadline, handshakes_->NextDeadline()) : deadline;
    const auto wake = AwaitFrames(channels, fds, until, cancel);
    if (wake == net::Wake::cancelled) auth::ThrowCancelled();
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (fds[others + i].revents != 0) Listen(sequence, ranks[i]);
    }
    if (handshakes_) {
      std::vector<auth::Admitted> admitted;
      handshakes_->Advance(std::span<const pollfd>(fds).first(strangers), admitted);
      Admit(admitted);
    }
    if (missing_ > 0 && deadline.Passed()) ThrowMissing(Describe(0));
  }
}

void Hub::HearRendezvous() {
  if (!rendezvous_) return;
  while (const auto frame = rendezvous_->Receive()) {
    if (const auto failure = DecodeFailure(*frame)) throw Error(failure->code, failure->message);
  }
  if (rendezvous_->closed()) rendezvous_.reset();  // its process need not outlive the verdict
}

void Hub::Listen(std::uint64_t sequence, int rank) {
  auto& from = member(rank);
  from.channel->Flush();
  while (const auto frame = from.channel->Receive()) {
    if (auto contribution = DecodeContribution(*frame)) {
      if (contribution->sequence != sequence || from.part) {
        Throw(tuttiInternalError, "{} is at exchange {} while rank 0 is at {}", Describe(rank), contribution->sequence,
              sequence);
      }
      from.part = std::move(contribution->blob);
      --missing_;
    } else if (DecodeImpatience(*frame)) {
      if (missing_ > 0) ThrowMissing(Describe(rank));
    } else if (const auto refusal = DecodeFailure(*frame); refusal && refusal->code != tuttiSuccess) {
      throw Error(refusal->code, refusal->message);
    } else {
      Throw(tuttiInternalError, "{} sent rank 0 a malformed message", Describe(rank));
    }
  }
  if (from.channel->closed()) {
    Throw(tuttiRemoteError, "{} is gone: it closed its connection (its process ended, or it gave up)", Describe(rank));
  }
}

void Hub::Admit(std::vector<auth::Admitted>& admitted) {
  for (auto& one : admitted) {
    // The rendezvous has assigned the ranks, so anything else here is a fault of a program or of this library.
    if (one.nranks != static_cast<int>(members_.size()) || one.rank == 0 || member(one.rank).channel) {
      Throw(tuttiInternalError, "rank {} of {} connected to a control plane of {} ranks that does not expect it",
            one.rank, one.nranks, members_.size());
    }
    auto& channel = member(one.rank).channel;
    channel.emplace(std::make_shared<SharedChannel>(std::move(one).OpenChannel()), Subchannel::kFirst);
  }
}

void Hub::Distribute(std::uint64_t sequence, const std::vector<Blob>& blobs, Deadline deadline, Cancellation cancel) {
  std::vector<pollfd> fds;
  std::vector<int> ranks;
  for (int rank = 1; rank < static_cast<int>(members_.size()); ++rank) ranks.push_back(rank);
  for (;;) {
    for (const int rank : ranks) Give(sequence, blobs, member(rank));
    std::erase_if(ranks,
                  [&](int rank) { return !member(rank).channel->sending() && member(rank).given == blobs.size(); });
    if (ranks.empty()) return;
    fds.clear();
    // Poll for room only: a member that has everything may already be sending the next exchange's part.
    for (const int rank : ranks) fds.push_back({member(rank).channel->fd(), POLLOUT, 0});
    const auto wake = AwaitFrames({}, fds, deadline, cancel);
    if (wake == net::Wake::cancelled) auth::ThrowCancelled();
    if (wake == net::Wake::deadline) {
      Throw(tuttiTimeoutError, "an exchange between the ranks timed out: {} does not receive its result from rank 0",
            Describe(ranks.front()));
    }
    // A rank that is gone has given its part; the others still get theirs. The next exchange reports it missing.
    for (std::size_t i = ranks.size(); i-- > 0;) {
      const bool gone = (fds[i].revents & (POLLERR | POLLHUP)) != 0 || member(ranks[i]).channel->left();
      if (gone) ranks.erase(ranks.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

void Hub::Give(std::uint64_t sequence, const std::vector<Blob>& blobs, Member& member) {
  member.channel->Flush();
  while (!member.channel->sending() && member.given < blobs.size()) {
    Parts parts{sequence, static_cast<std::uint32_t>(member.given), {}};
    for (std::size_t bytes = 0; member.given < blobs.size(); ++member.given) {
      const auto& blob = blobs[member.given];
      if (!parts.blobs.empty() && bytes + blob.size() > kPackBytes) break;
      bytes += blob.size();
      parts.blobs.push_back(blob);
    }
    member.channel->Queue(Encode(parts));
  }
}

void Hub::Tell(const Failure& failure) {
  const auto bytes = Encode(failure);
  if (rendezvous_) rendezvous_->Queue(bytes);  // for ranks that have not reached the hub yet
  for (auto& member : members_) {
    if (member.channel) member.channel->Queue(bytes);
  }
  // Members in the middle of a big result have to receive that first.
  const auto farewell = Deadline::After(kFarewell);
  std::vector<pollfd> fds;
  do {
    fds.clear();
    for (auto& member : members_) {
      if (!member.channel) continue;
      member.channel->Flush();
      if (member.channel->sending()) fds.push_back({member.channel->fd(), POLLOUT, 0});
    }
  } while (!fds.empty() && net::Wait(fds, farewell) == net::Wake::event && !farewell.Passed());
}

void Hub::ThrowMissing(const std::string& where) const {
  std::vector<int> missing;
  for (std::size_t rank = 0; rank < members_.size(); ++rank) {
    if (!members_[rank].part) missing.push_back(static_cast<int>(rank));
  }
  Throw(tuttiTimeoutError, "an exchange between the ranks timed out at {}: {} of {} did not take part; the first is {}",
        where, DescribeRanks(missing), members_.size(), Describe(missing.front()));
}

}  // namespace tutti::bootstrap
