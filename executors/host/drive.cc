#include "executors/host/drive.h"

#include <sched.h>

#include <algorithm>
#include <thread>

#include "base/threads/pause.h"
#include "executors/host/time_slice.h"

namespace tutti::host {
namespace {

using std::chrono::microseconds;

// How long a wait keeps its core before it sleeps. A wake-up takes 30 to 70 us, so sleeping earlier costs more than it
// saves; after a scheduler tick (1 to 4 ms), every thread that wanted the core has had it.
constexpr microseconds kPatience{4000};
// The same next to computing threads. A yielding thread stays runnable, so the scheduler still gives it CPU time: of
// two cores the waiting threads get one, and the computing ones share the other (docs/notebook/parallel/overlap.md).
// So this is not much longer than a wake-up.
constexpr microseconds kPatienceBeside{100};
// With a core for every rank: long enough for a peer's chunk (a few us) and for most skew between ranks.
constexpr microseconds kSpin{200};
constexpr microseconds kForever = std::chrono::hours(24 * 365);

// Every rank checks every other rank, so the total cost grows with the square of the ranks.
constexpr microseconds kCheckEvery{1000};
constexpr microseconds kCheckLaterPerRank{250};
constexpr microseconds kSeldomest{50'000};
constexpr microseconds kNap{200};
// A call may take a microsecond or two (MPI polls its transports), so this keeps it below a tenth of the wait.
constexpr microseconds kMeanwhileEvery{20};
// Looking at the clock costs as much as 20 polls.
constexpr std::uint32_t kSpinsPerLook = 64;
constexpr std::uint32_t kYieldsPerLook = 8;
// A sched_yield takes 0.2 to 0.7 us if no thread takes the core, otherwise at least two switches of 1 to 2 us each.
constexpr microseconds kTaken{3};
// Waits during which a taken core counts as shared. Checking again costs one spin of kSpinsPerLook polls.
constexpr int kSharedWaits = 32;
// A thread that keeps a core for this long computes. Linux gives slices of 0.7 to 4 ms; a rank that waits gives the core
// back after the copies of one turn.
constexpr microseconds kLostSlice{500};
// No core is offered for this long after a lost slice, and twice as long after each further one. Trying again costs a
// slice, a sixteenth of the first time. The thread may have moved to another core meanwhile, and share it with a peer.
constexpr microseconds kKeepsCoreAtFirst{64'000};
constexpr microseconds kKeepsCoreAtMost{1'000'000};

}  // namespace

WaitPolicy ChooseWaitPolicy(std::string_view mode, int ranks, int cores, WhoWaits who) {
  const auto check_every = std::min(kCheckEvery + ranks * kCheckLaterPerRank, kSeldomest);
  if (mode == "spin") return {kForever, kForever, check_every, true};
  if (mode == "yield") return {microseconds(0), kForever, check_every};
  if (mode == "sleep") return {microseconds(0), microseconds(0), check_every};
  const bool beside = who == WhoWaits::stream;
  const bool enough = (beside ? 2 * ranks : ranks) <= cores;
  return {enough ? kSpin : microseconds(0), beside && !enough ? kPatienceBeside : kPatience, check_every};
}

void Driver::Yield() {
  ++counts_.yields;
  thread_local bool asked = false;
  if (!asked && policy_.slice.count() > 0) {
    asked = true;
    AskForSlices(policy_.slice);
  }
  sched_yield();
}

Driver::Clock::duration Driver::YieldAndLook() {
  const auto begin = Clock::now();
  Yield();
  const auto end = Clock::now();
  if (end - begin < kLostSlice) {
    keeps_core_for_ = {};
    return end - begin;
  }
  ++counts_.lost_slices;
  keeps_core_for_ = std::clamp<Clock::duration>(2 * keeps_core_for_, kKeepsCoreAtFirst, kKeepsCoreAtMost);
  keeps_core_until_ = end + keeps_core_for_;
  if (policy_.spin.count() > 0) {
    yielding_waits_ = 0;
    phase_ = Phase::spin;
  }
  return end - begin;
}

bool Driver::Poll() {
  if (phase_ == Phase::spin) {
    ++counts_.spins;
    Pause();
    return polls_ % kSpinsPerLook != 0;
  }
  YieldAndLook();
  return polls_ % kYieldsPerLook != 0;
}

void Driver::Nap() { std::this_thread::sleep_for(kNap); }

bool Driver::TimeToCheck() {
  if (!looked_) lookout_ = {};
  const auto now = lookout_.Look();
  if (!looked_) since_ = checked_ = now;
  looked_ = true;
  if (meanwhile_.call != nullptr && now - called_ >= kMeanwhileEvery) {
    called_ = now;
    meanwhile_.call(meanwhile_.context);
  }
  const auto waited = now - since_;
  const bool spins = waited < policy_.spin && yielding_waits_ == 0;
  const bool keeps_core = policy_.keeps_core || now < keeps_core_until_;
  // After a lost slice, a spinning thread that waits long gives its core up by sleeping: a wake-up brings it back sooner.
  const bool yields = waited < policy_.spin + policy_.yield && !(policy_.spin.count() > 0 && keeps_core);
  phase_ = spins ? Phase::spin : yields ? Phase::yield : Phase::sleep;
  if (spins && !keeps_core) OfferCore();
  if (now - checked_ < policy_.check_every) return false;
  checked_ = now;
  return true;
}

// A policy counts one communicator's ranks, but cores are the machine's: two ranks do not outnumber two cores, but the
// threads of eight such communicators do. A spinning thread may then keep the thread it waits for off the core.
void Driver::OfferCore() {
  const auto away = YieldAndLook();
  if (away < kTaken || away >= kLostSlice) return;
  yielding_waits_ = kSharedWaits;
  phase_ = Phase::yield;
}

}  // namespace tutti::host
