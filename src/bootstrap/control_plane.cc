#include "src/bootstrap/control_plane.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "net/auth/dial.h"

namespace tutti::bootstrap {

ControlPlane::ControlPlane(int rank, std::vector<Process> roster)
    : rank_(rank), roster_(std::move(roster)), owner_(getpid()), first_ranks_(roster_.size()) {
  std::iota(first_ranks_.begin(), first_ranks_.end(), 0);
}

ControlPlane::~ControlPlane() {
  // A forked child holds only copies and must not shut them down.
  if (getpid() == owner_) Shutdown();
}

void ControlPlane::Shutdown() {
  if (hub_) hub_->Shutdown();
  if (to_hub_) to_hub_->Shutdown();
}

std::vector<ControlPlane::Blob> ControlPlane::AllGather(std::span<const std::byte> mine, Deadline deadline,
                                                        Cancellation cancel) {
  if (failure_) throw *failure_;
  if (mine.size() > kMaxBlob) {
    Throw(tuttiInternalError, "a control plane exchange of {} bytes is beyond its limit of {}", mine.size(), kMaxBlob);
  }
  ++sequence_;
  try {
    return hub_ ? hub_->AllGather(sequence_, mine, deadline, cancel) : GatherAsMember(mine, deadline, cancel);
  } catch (const Error& error) {
    failure_ = error;
    Shutdown();
    throw;
  }
}

void ControlPlane::Refuse(const Error& why) noexcept {
  if (failure_ || getpid() != owner_) return;
  try {
    failure_ = why;
    const Failure failure{why.code(), why.what()};
    if (hub_) {
      hub_->Tell(failure);
    } else {
      to_hub_->Queue(Encode(failure));
    }
  } catch (const std::exception&) {
    // Without memory for the message, closing the connection must suffice.
    Shutdown();
  }
}

std::vector<ControlPlane::Blob> ControlPlane::GatherAsMember(std::span<const std::byte> mine, Deadline deadline,
                                                             Cancellation cancel) {
  const auto hub = Describe(0, roster_[0]);
  std::vector<Blob> blobs;
  bool asked = false;
  to_hub_->Queue(Encode(Contribution{sequence_, {mine.begin(), mine.end()}}));
  for (;;) {
    while (const auto frame = to_hub_->Receive()) {
      if (const auto failure = DecodeFailure(*frame)) throw Error(failure->code, failure->message);
      auto parts = DecodeParts(*frame);
      const bool fits = parts && parts->sequence == sequence_ && parts->first == blobs.size() &&
                        parts->blobs.size() <= roster_.size() - blobs.size();
      if (!fits) Throw(tuttiInternalError, "{} sent rank {} an unexpected message", hub, rank_);
      std::ranges::move(parts->blobs, std::back_inserter(blobs));
      if (blobs.size() == roster_.size()) return blobs;
    }
    if (to_hub_->closed()) {
      Throw(tuttiRemoteError, "{} is gone: it closed its connection to rank {} (its process ended, or it gave up)", hub,
            rank_);
    }
    std::vector fds{to_hub_->Watch()};
    switch (AwaitFrames(std::array{&*to_hub_}, fds, deadline, cancel)) {
      case net::Wake::cancelled: auth::ThrowCancelled();
      case net::Wake::event: to_hub_->Flush(); break;
      case net::Wake::deadline:
        if (asked) {
          Throw(tuttiTimeoutError, "an exchange between the ranks timed out at rank {}: {} did not answer", rank_, hub);
        }
        asked = true;
        to_hub_->Queue(Encode(TimeoutQuery{}));
        deadline = Deadline::After(kLastAnswer);
        break;
    }
  }
}

}  // namespace tutti::bootstrap
