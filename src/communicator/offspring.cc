// Communicators derived from others: by splitting, shrinking and growing.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/all_gather.h"
#include "base/log.h"
#include "base/threads/quiet_thread.h"
#include "src/bootstrap/rendezvous/rendezvous.h"
#include "src/communicator/communicator.h"

namespace tutti::comm {
namespace {

// Lives while some ranks become a communicator, and asks them to give up when one ends. Detects that by the process (on
// this host) or by the connection to the agreement's leader. Ranks that wait at the rendezvous cannot distinguish an
// ended rank from a late one.
class WhileAllLive {
 public:
  WhileAllLive(const diagnostics::FailureDetector& failure_detector, shrink::LivenessLinks& links,
               const std::vector<int>& ranks)
      : thread_(QuietThread([this, &failure_detector, &links, &ranks] {
          while (!done_.load(std::memory_order_acquire)) {
            const auto dead = failure_detector.Dead();
            const auto is_dead = [&](int rank) { return std::ranges::find(dead, rank) != dead.end(); };
            if (links.OneEnded() || std::ranges::any_of(ranks, is_dead))
              one_died_.store(true, std::memory_order_relaxed);
            std::this_thread::sleep_for(kLookEvery);
          }
        })) {}
  ~WhileAllLive() {
    done_.store(true, std::memory_order_release);
    thread_.join();
  }
  WhileAllLive(const WhileAllLive&) = delete;
  WhileAllLive& operator=(const WhileAllLive&) = delete;

  const std::atomic<bool>& one_died() const { return one_died_; }

 private:
  static constexpr std::chrono::milliseconds kLookEvery{5};

  std::atomic<bool> done_{false};
  std::atomic<bool> one_died_{false};
  std::thread thread_;  // last: it uses the members above
};

}  // namespace

std::unique_ptr<Communicator> Communicator::Split(int color, int key, const Options& options,
                                                  const std::atomic<bool>& cancel) {
  struct Choice {
    std::int32_t color, key;
  };
  // Cancelled by an abort of this communicator or of the new one.
  const Cancellation either(cancelled_, &cancel);
  // Where the ranks of a part meet, as its first rank decides.
  struct Place {
    tuttiUniqueId id;      // of a rendezvous; otherwise over the connections that they have:
    std::uint64_t number;  // for ControlPlane::Derive(); 0: at the rendezvous
  };
  std::vector<int> members;
  bootstrap::RendezvousHold hold;
  std::unique_ptr<bootstrap::ControlPlane> derived;
  const auto places = InControlCall(ControlCall::split, [&] {
    const auto all_gather = MakeAllGather(either);
    RequireSameCalls(ControlCall::split, all_gather);
    const auto choices = GatherValues(all_gather, Choice{color, key});
    for (std::size_t r = 0; r < choices.size(); ++r) {
      if (choices[r].color == color && color >= 0) members.push_back(static_cast<int>(r));
    }
    std::ranges::stable_sort(members, {}, [&](int r) { return choices[static_cast<std::size_t>(r)].key; });
    Place place{};
    try {
      if (!members.empty() && members.front() == rank()) {
        if (control_plane_->Reaches(members)) {
          // Open here before the others learn the number, and may send something.
          place.number = auth::RandomNumber();
          derived = control_plane_->Derive(members, place.number, options.settings);
        } else {
          place.id = bootstrap::EncodeUniqueId(bootstrap::OpenRendezvous(options_.settings, &hold));
        }
      }
    } catch (...) {
      // Only this rank has seen this failure.
      control_plane_->Refuse(RefusalOf(CurrentFailure(), ControlCall::split));
      throw;
    }
    return GatherValues(all_gather, place);
  });
  if (color < 0) {
    AwaitArrivals(ControlCall::split, either);
    return nullptr;
  }
  const auto& place = places[static_cast<std::size_t>(members.front())];
  const auto meet = [&](const Settings& settings, Deadline deadline, const std::function<void()>& arrived) {
    if (place.number != 0) {
      if (derived == nullptr) derived = control_plane_->Derive(members, place.number, settings);
      arrived();
      return std::move(derived);
    }
    const auto mine = std::ranges::find(members, rank()) - members.begin();
    auto joined = bootstrap::ControlPlane::Join(bootstrap::DecodeUniqueId(place.id), static_cast<int>(members.size()),
                                                static_cast<int>(mine), settings, deadline, either, [&] {
                                                  arrived();
                                                  hold.Release();
                                                });
    control_plane_->Adopt(*joined, members);
    return joined;
  };
  // The other parts' ranks work beside these, on the same cores.
  Options of_part = options;
  of_part.most_threads = host_->selector().tuning().threads;
  of_part.network_costs = host_->network_costs();
  return Join(ControlCall::split, meet, of_part, either);
}

void Communicator::AwaitArrivals(ControlCall call, Cancellation cancel) {
  InControlCall(call, [&] { control_plane_->Barrier(InitDeadline(), cancel); });
}

std::unique_ptr<Communicator> Communicator::Join(ControlCall call, const MeetFromHere& meet, const Options& options,
                                                 Cancellation cancel) {
  bool arrived = false;
  const auto arrive = [&] {
    arrived = true;
    AwaitArrivals(call, cancel);
  };
  try {
    return std::make_unique<Communicator>(
        [&](const Settings& settings, Deadline deadline) { return meet(settings, deadline, arrive); }, options, cancel);
  } catch (...) {
    if (arrived) throw;
    const Error failure = CurrentFailure();
    // Another rank has ended the meeting before this one came. Why, it has said here.
    if (failure.code() == tuttiRemoteError) AwaitArrivals(call, cancel);
    control_plane_->Refuse(RefusalOf(failure, call));
    throw;
  }
}

std::unique_ptr<Communicator> Communicator::Shrink(const std::vector<int>& excluded, bool exact, const Options& options,
                                                   const std::atomic<bool>& cancel) {
  // This communicator may have failed or been revoked; only an abort cancels its agreement.
  const Cancellation either(aborted_, &cancel);
  // Other ranks may still wait for this one in a control call, unaware of what ended the communicator.
  if (const auto before = failure()) control_plane_->Refuse(*before);
  const auto deadline = InitDeadline();
  bootstrap::RendezvousHold hold;
  const auto open = [&] { return bootstrap::EncodeUniqueId(bootstrap::OpenRendezvous(options_.settings, &hold)); };
  for (;;) {
    const auto reunited =
        membership_agreement_->Meet(excluded, exact, host_->failure_detector().Dead(), open, deadline, either);
    const auto& members = reunited.members;
    const auto place = std::ranges::find(members, rank()) - members.begin();
    std::optional<WhileAllLive> alive(std::in_place, host_->failure_detector(), membership_agreement_->links(),
                                      members);
    try {
      const auto meet = At(bootstrap::DecodeUniqueId(reunited.id), static_cast<int>(members.size()),
                           static_cast<int>(place), Cancellation(aborted_, &cancel, &alive->one_died()));
      auto joined = std::make_unique<Communicator>(meet, options, either);
      alive.reset();
      hold.Release();
      membership_agreement_->links().SayJoined();
      return joined;
    } catch (const Error& error) {
      // Another rank may have died since; the survivors find that out together.
      const bool remote = error.code() == tuttiRemoteError || error.code() == tuttiTimeoutError;
      if (!remote && !alive->one_died()) throw;
      if (deadline.Passed() && remote) throw;
      if (deadline.Passed()) {
        Throw(tuttiTimeoutError,
              "rank {}: the {} remaining ranks did not form a communicator in the time allowed; one of them ended or "
              "gave up",
              rank(), members.size());
      }
      Log(Subject::faults, "rank {}: {} ranks did not form a communicator, so the remaining ranks try again: {}",
          rank(), members.size(), error.what());
    }
  }
}

std::unique_ptr<Communicator> Communicator::Grow(int nranks, const std::optional<tuttiUniqueId>& id,
                                                 const Options& options, const std::atomic<bool>& cancel) {
  struct Offer {
    std::int32_t nranks;
    std::int32_t has_id;
    tuttiUniqueId id;
  };
  const Cancellation either(cancelled_, &cancel);
  const auto offers = InControlCall(ControlCall::grow, [&] {
    RequireSameCalls(ControlCall::grow, MakeAllGather(either));
    return GatherValues(MakeAllGather(either), Offer{nranks, id.has_value(), id.value_or(tuttiUniqueId{})});
  });
  for (std::size_t r = 0; r < offers.size(); ++r) {
    if (offers[r].nranks == offers.front().nranks) continue;
    Throw(tuttiInvalidUsage, "ranks disagree on nranks: rank 0 grows to {}, rank {} to {}", offers.front().nranks, r,
          offers[r].nranks);
  }
  const auto offer = std::ranges::find_if(offers, [](const auto& each) { return each.has_id != 0; });
  if (offer == offers.end()) {
    Throw(tuttiInvalidUsage, "none of the {} ranks of comm passed a unique id, which the new ranks need to join",
          size());
  }
  const auto meet = [&](const Settings& settings, Deadline deadline, const std::function<void()>& arrived) {
    return bootstrap::ControlPlane::Join(bootstrap::DecodeUniqueId(offer->id), nranks, rank(), settings, deadline,
                                         either, arrived);
  };
  return Join(ControlCall::grow, meet, options, either);
}

}  // namespace tutti::comm
