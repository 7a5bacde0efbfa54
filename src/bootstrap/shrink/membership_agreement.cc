#include "src/bootstrap/shrink/membership_agreement.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "net/auth/dial.h"
#include "src/bootstrap/shrink/caller.h"
#include "src/bootstrap/shrink/listener.h"
#include "src/bootstrap/shrink/messages.h"

namespace tutti::shrink {
namespace {

// Most ranks come by themselves; the leader calls those that have not come by then.
constexpr Deadline::Milliseconds kCallAfter{100};
// Between two calls to a rank that lives but hung up.
constexpr Deadline::Milliseconds kCallDroppedAgain{500};
// After its deadline, a follower waits this long for the leader to name the missing ranks.
constexpr Deadline::Milliseconds kLastAnswer{80};
// Before looking for a leader again.
constexpr Deadline::Milliseconds kPause{50};

class Meeting {
 public:
  struct Call {
    int rank;
    const MembershipAgreement::Ranks& ranks;
    const auth::SecretKey& key;
    Deadline::Milliseconds silence;
    const std::function<bool(int rank)>& reaches;
    auth::Doorkeeper& keeper;
    std::vector<auth::SecureChannel>& told;
    LivenessLinks& links;
    const std::vector<int>& excluded;
    bool exact;
    const std::vector<int>& ended;
    const std::function<tuttiUniqueId()>& open;
    Deadline deadline;
    Cancellation cancel;
  };

  explicit Meeting(const Call& call)
      : call_(call),
        excluded_(call.excluded.begin(), call.excluded.end()),
        gone_(call.ended.begin(), call.ended.end()),
        ended_(gone_),
        listener_(call.keeper, call.rank, size(), call.told) {}

  Reunited Run() {
    for (;;) {
      auto leader = FindLeader();
      if (!leader) {
        if (auto reunited = Lead()) return *reunited;
      } else if (auto reunited = Follow(*leader)) {
        return *reunited;
      }
    }
  }

 private:
  using Contact = AgreementListener::Contact;
  struct Candidate {
    int rank;
    AgreementCaller caller;
  };

  int size() const { return static_cast<int>(call_.ranks.roster.size()); }
  std::string Who(int rank) const {
    return bootstrap::Describe(rank, call_.ranks.roster[static_cast<std::size_t>(rank)]);
  }
  AgreementCaller CallTo(int rank) const {
    return {call_.ranks.addresses[static_cast<std::size_t>(rank)], call_.rank, rank, size(), call_.silence,
            [this, rank] { return SystemAnswers(rank); }};
  }
  int HostOf(int rank) const { return call_.ranks.host_of[static_cast<std::size_t>(rank)]; }
  // Whether the system of `rank` answers, regardless of the outcome of a call to `rank`. On this host no call is needed
  // to detect an ended process.
  bool SystemAnswers(int rank) const {
    if (HostOf(rank) == HostOf(call_.rank)) return true;
    for (int r = 0; r < size(); ++r) {
      if (HostOf(r) == HostOf(rank) && (came_.contains(r) || call_.reaches(r))) return true;
    }
    return false;
  }
  // A silent host counts as gone for all its ranks; an ended process only for itself.
  void NoteGone(int rank, AgreementCaller::State state) {
    for (int r = 0; r < size(); ++r) {
      const bool same_host = HostOf(r) == HostOf(rank);
      if (r == rank || (state == AgreementCaller::State::silent && same_host && r != call_.rank)) gone_.insert(r);
    }
    if (state == AgreementCaller::State::refused) ended_.insert(rank);
    Log(Subject::faults, "rank {}: {} is gone ({})", call_.rank, Who(rank),
        state == AgreementCaller::State::silent ? "its host does not answer"
                                                : "no process of this job listens at its port");
  }

  net::Wake AwaitAny(std::vector<pollfd>& fds, Deadline until) const {
    const auto wake = net::Wait(fds, std::min(until, call_.deadline), call_.cancel);
    if (wake == net::Wake::cancelled) auth::ThrowCancelled();
    return wake;
  }

  // The lowest rank below this one whose system takes calls; if none, this rank leads.
  std::optional<Candidate> FindLeader() {
    for (int rank = 0; rank < call_.rank; ++rank) {
      if (excluded_.contains(rank) || gone_.contains(rank)) continue;
      Candidate candidate{rank, CallTo(rank)};
      while (candidate.caller.Advance(call_.key) == AgreementCaller::State::connecting) {
        std::vector<pollfd> fds;
        candidate.caller.Watch(fds);
        AwaitAny(fds, candidate.caller.NextDeadline());
        if (call_.deadline.Passed()) throw Late(rank);
      }
      const auto state = candidate.caller.state();
      if (state != AgreementCaller::State::refused && state != AgreementCaller::State::silent) return candidate;
      NoteGone(rank, state);
    }
    return std::nullopt;
  }

  Error Late(int rank) const {
    return {tuttiTimeoutError,
            fmt::format(
                "{} is alive, but has not called tuttiCommShrink in the time allowed; exclude it to go on without it",
                Who(rank))};
  }

  // Returns nothing if the caller must look for a leader again.
  std::optional<Reunited> Follow(Candidate& leader) {
    bool introduced = false, asked = false, yields = false;
    auto deadline = call_.deadline;
    while (!yields) {
      switch (leader.caller.Advance(call_.key)) {
        case AgreementCaller::State::refused:
        case AgreementCaller::State::silent: NoteGone(leader.rank, leader.caller.state()); return std::nullopt;
        case AgreementCaller::State::dropped: return Pause();
        case AgreementCaller::State::talking: {
          auto& channel = leader.caller.channel();
          if (!introduced) channel.Queue(Encode(Mine(false)));
          introduced = true;
          channel.Flush();
          while (const auto frame = channel.Receive()) {
            if (const auto decision = DecodeDecision(*frame)) return Accept(*decision, leader.caller);
            if (const auto following = DecodeFollowing(*frame)) {
              if (ended_.contains(following->leader)) return Pause();
              CheckSameLeader(leader.rank, *following);
            }
          }
          if (channel.closed()) return Pause();
          break;
        }
        default: break;
      }
      std::vector<pollfd> fds;
      listener_.Watch(fds);
      leader.caller.Watch(fds);
      const auto wake = net::Wait(fds, deadline, call_.cancel);
      if (wake == net::Wake::cancelled) auth::ThrowCancelled();
      if (wake == net::Wake::deadline && deadline.Passed()) {
        if (!introduced) throw Late(leader.rank);
        if (asked) Throw(tuttiTimeoutError, "{}, which collects the remaining ranks, did not answer", Who(leader.rank));
        asked = true;
        leader.caller.channel().Queue(Encode(Mine(false)));
        deadline = Deadline::After(kLastAnswer);
      }
      listener_.Receive([&](Contact contact, const Presence& presence) {
        // A rank that could not be reached before can reach this one.
        yields = yields || (presence.leads && contact.rank < leader.rank);
        if (!yields) listener_.Tell(std::move(contact.channel), Encode(Following{leader.rank}));
      });
    }
    Forgive();
    return std::nullopt;
  }

  std::optional<Reunited> Pause() const {
    std::vector<pollfd> nothing;
    if (net::Wait(nothing, Deadline::After(kPause), call_.cancel) == net::Wake::cancelled) auth::ThrowCancelled();
    if (call_.deadline.Passed()) Throw(tuttiTimeoutError, "the remaining ranks did not agree in the time allowed");
    return std::nullopt;
  }

  // Unreachable ranks may have come back; ended ones have not.
  void Forgive() {
    gone_ = {call_.ended.begin(), call_.ended.end()};
    Pause();
  }

  // REQUIRES: the process of the followed rank has not ended. (A rank that follows an ended one finds out in a moment.)
  void CheckSameLeader(int called, const Following& following) const {
    if (following.leader == called || following.leader == call_.rank) return;
    Throw(tuttiRemoteError, "the other ranks go on without {}: {} follows {}, which this rank cannot reach",
          Who(call_.rank), Who(called),
          following.leader < size() ? Who(following.leader) : fmt::format("rank {}", following.leader));
  }

  Presence Mine(bool leads) const { return {leads, {excluded_.begin(), excluded_.end()}, call_.ended}; }

  Reunited Accept(const Decision& decision, AgreementCaller& leader) const {
    if (decision.code != tuttiSuccess) throw Error(decision.code, decision.message);
    if (!std::ranges::binary_search(decision.members, call_.rank)) {
      Throw(tuttiInternalError, "rank {} received a communicator that does not include it", call_.rank);
    }
    call_.links.Keep(leader.TakeChannel());
    return {decision.members, decision.id};
  }

  // Returns nothing if a lower rank leads after all.
  std::optional<Reunited> Lead() {
    came_.clear();
    calls_.clear();
    call_at_.clear();
    yields_ = false;
    disagreement_.reset();
    for (int rank = 0; rank < size(); ++rank) {
      if (rank != call_.rank && !excluded_.contains(rank)) call_at_.emplace(rank, Deadline::After(kCallAfter));
    }
    while (FirstMissing() && !yields_) {
      const auto next = CallMissing();
      if (FirstMissing()) HearThose(next);
      if (call_.deadline.Passed()) FailForLate();
    }
    calls_.clear();
    if (!yields_) return Decide();
    came_.clear();
    Forgive();
    return std::nullopt;
  }

  bool IsMissing(int rank) const { return !came_.contains(rank) && !gone_.contains(rank); }
  std::optional<int> FirstMissing() const {
    const auto found = std::ranges::find_if(call_at_, [&](const auto& each) { return IsMissing(each.first); });
    return found == call_at_.end() ? std::nullopt : std::optional(found->first);
  }

  // Returns when to call this again even without an event.
  Deadline CallMissing() {
    auto next = Deadline::Never();
    for (auto& [rank, at] : call_at_) {
      if (!IsMissing(rank)) continue;
      auto call = calls_.find(rank);
      if (call == calls_.end() && at.Passed()) call = calls_.emplace(rank, CallTo(rank)).first;
      if (call == calls_.end()) {
        next = std::min(next, at);
        continue;
      }
      const auto state = Speak(rank, call->second);
      if (state == AgreementCaller::State::refused || state == AgreementCaller::State::silent) {
        NoteGone(rank, state);
      } else if (state == AgreementCaller::State::dropped) {
        at = Deadline::After(kCallDroppedAgain);
        next = std::min(next, at);
      } else {
        next = std::min(next, call->second.NextDeadline());
        continue;
      }
      calls_.erase(call);
    }
    return next;
  }

  // Waits for messages and handles them.
  void HearThose(Deadline until) {
    std::vector<pollfd> fds;
    listener_.Watch(fds);
    for (const auto& [rank, caller] : calls_) caller.Watch(fds);
    for (const auto& [rank, channel] : came_) fds.push_back(channel.Watch());
    AwaitAny(fds, until);
    listener_.Receive([&](Contact contact, const Presence& presence) { Hear(std::move(contact), presence); });
    bool impatient = false;
    for (auto each = came_.begin(); each != came_.end();) {
      // A rank that has come sends again after its deadline.
      impatient = each->second.Receive().has_value() || impatient;
      // A later call finds out whether it has ended, as for ranks that never came.
      each = each->second.closed() ? came_.erase(each) : std::next(each);
    }
    if (impatient) FailForLate();
  }

  void Hear(Contact contact, const Presence& presence) {
    const int rank = contact.rank;
    if (presence.leads) {
      yields_ = yields_ || rank < call_.rank;
      if (!yields_) listener_.Tell(std::move(contact.channel), Encode(Following{call_.rank}));
      return;
    }
    const Presence mine = Mine(true);
    const bool agrees = !excluded_.contains(rank) && presence.excluded == mine.excluded;
    came_.insert_or_assign(rank, std::move(contact.channel));
    if (!agrees && !disagreement_) {
      const auto describe = [](const std::vector<int>& ranks) {
        return ranks.empty() ? "no rank" : bootstrap::DescribeRanks(ranks);
      };
      disagreement_ = {tuttiInvalidUsage,
                       fmt::format("ranks disagree on the ranks to exclude: {} excludes {}, {} excludes {}",
                                   Who(call_.rank), describe(mine.excluded), Who(rank), describe(presence.excluded))};
    }
    gone_.erase(rank);
    calls_.erase(rank);
    for (const int ended : presence.ended) {
      if (ended != call_.rank && !came_.contains(ended)) gone_.insert(ended);
    }
  }

  // Sends the error to every rank that came.
  [[noreturn]] void Fail(const Error& error) {
    for (auto& [rank, channel] : came_) {
      listener_.Tell(std::move(channel), Encode(Decision{error.code(), error.what(), {}, {}}));
    }
    throw error;
  }
  void FailForLate() {
    const auto late = FirstMissing();
    if (late) Fail(disagreement_.value_or(Late(*late)));
  }

  void CheckAllCame() {
    std::vector<int> missing;
    for (const auto& [rank, at] : call_at_) {
      if (!came_.contains(rank)) missing.push_back(rank);
    }
    if (missing.empty()) return;
    const bool one = missing.size() == 1;
    Fail({tuttiRemoteError,
          fmt::format("{} {} gone: the communicator would have {} of the {} ranks that are not excluded; exclude {} to "
                      "go on without",
                      one ? Who(missing.front()) : bootstrap::DescribeRanks(missing), one ? "is" : "are",
                      came_.size() + 1, call_at_.size() + 1, one ? "it" : "them")});
  }

  Reunited Decide() {
    if (disagreement_) Fail(*disagreement_);
    if (call_.exact) CheckAllCame();
    Decision decision;
    decision.members.push_back(call_.rank);
    for (const auto& [rank, channel] : came_) decision.members.push_back(rank);
    std::ranges::sort(decision.members);
    try {
      decision.id = call_.open();
    } catch (const Error& error) {
      Fail(error);
    }
    for (auto& [rank, channel] : came_) {
      channel.Queue(Encode(decision));
      call_.links.Keep(std::move(channel));
    }
    return {decision.members, decision.id};
  }

  // Sent by the leader to a missing rank: where are you?
  AgreementCaller::State Speak(int rank, AgreementCaller& caller) {
    const bool silent_before = caller.state() != AgreementCaller::State::talking;
    const auto state = caller.Advance(call_.key);
    if (state != AgreementCaller::State::talking) return state;
    auto& channel = caller.channel();
    if (silent_before) channel.Queue(Encode(Mine(true)));
    channel.Flush();
    while (const auto frame = channel.Receive()) {
      if (const auto following = DecodeFollowing(*frame)) {
        if (ended_.contains(following->leader)) return AgreementCaller::State::dropped;
        CheckSameLeader(rank, *following);
      }
    }
    return channel.closed() ? AgreementCaller::State::dropped : state;
  }

  Call call_;
  std::set<int> excluded_;
  std::set<int> gone_;
  std::set<int> ended_;  // the part of gone_ whose processes have ended
  AgreementListener listener_;
  // For the leader, by rank:
  std::map<int, auth::SecureChannel> came_;
  std::map<int, AgreementCaller> calls_;  // to ranks that have not come
  std::map<int, Deadline> call_at_;       // every rank that should come
  std::optional<Error> disagreement_;     // among the ranks that came; sent when all are here to receive it
  bool yields_ = false;                   // to a lower rank that leads
};

}  // namespace

MembershipAgreement::MembershipAgreement(int rank, Ranks ranks, std::unique_ptr<auth::Doorkeeper> keeper,
                                         const auth::SecretKey& key, Deadline::Milliseconds silence,
                                         std::function<bool(int rank)> reaches)
    : rank_(rank),
      ranks_(std::move(ranks)),
      key_(key),
      silence_(silence),
      reaches_(std::move(reaches)),
      keeper_(std::move(keeper)),
      links_(silence) {}

Reunited MembershipAgreement::Meet(const std::vector<int>& excluded, bool exact, const std::vector<int>& ended,
                                   const std::function<tuttiUniqueId()>& open, Deadline deadline, Cancellation cancel) {
  last_.clear();
  links_.Cut();
  return Meeting({rank_, ranks_, key_, silence_, reaches_, *keeper_, last_, links_, excluded, exact, ended, open,
                  deadline, cancel})
      .Run();
}

}  // namespace tutti::shrink
