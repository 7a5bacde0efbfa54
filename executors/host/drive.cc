#include "executors/host/drive.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace tutti {
namespace {

using std::chrono::microseconds;

// How long a wait may keep its core before it lets others have it: a wake-up takes 30 to 70 us, so sleeping earlier
// costs more than it saves; a scheduler tick (1 to 4 ms) later, whoever wanted the core has had it.
constexpr microseconds kPatience{4000};
// Beside somebody who computes. Who yields the core stays runnable, and is given one as if he had work: of two cores
// the threads that wait get one, and those that compute share the other (docs/performance.md). So not much longer than
// a wake-up takes.
constexpr microseconds kPatienceBeside{100};
// With a core for every rank: long enough for a peer's chunk (a few us) and for most skew between ranks.
constexpr microseconds kSpin{200};
constexpr microseconds kForever = std::chrono::hours(24 * 365);

// A check looks at every other rank, and every rank checks: what they cost together grows with the square of the ranks.
constexpr microseconds kCheckEvery{1000};
constexpr microseconds kCheckLaterPerRank{250};
constexpr microseconds kSeldomest{50'000};
constexpr microseconds kNap{200};
// Looking at the clock costs as much as 20 polls.
constexpr std::uint32_t kSpinsPerLook = 64;
constexpr std::uint32_t kYieldsPerLook = 8;
// A sched_yield that nobody makes use of takes 0.2 to 0.7 us; one that lets another thread run two switches at least,
// of 1 to 2 us each.
constexpr microseconds kTaken{3};
// For so many waits a core that somebody took is shared. To find out anew costs one spin of kSpinsPerLook polls.
constexpr int kSharedWaits = 32;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

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

bool Driver::Poll() {
  if (phase_ == Phase::spin) {
    ++counts_.spins;
    Pause();
    return polls_ % kSpinsPerLook != 0;
  }
  ++counts_.yields;
  sched_yield();
  return polls_ % kYieldsPerLook != 0;
}

void Driver::Nap() { std::this_thread::sleep_for(kNap); }

bool Driver::TimeToCheck() {
  const auto now = Clock::now();
  if (!looked_) since_ = checked_ = now;
  looked_ = true;
  const auto waited = now - since_;
  const bool spins = waited < policy_.spin && yielding_waits_ == 0;
  phase_ = spins ? Phase::spin : waited < policy_.spin + policy_.yield ? Phase::yield : Phase::sleep;
  if (spins && !policy_.keeps_core) OfferCore(now);
  if (now - checked_ < policy_.check_every) return false;
  checked_ = now;
  return true;
}

// Ranks are a communicator's business, cores the machine's: two ranks on two cores do not outnumber them, but the
// threads of eight such communicators do, and then whoever spins keeps from running whom it waits for.
void Driver::OfferCore(Clock::time_point now) {
  sched_yield();
  if (Clock::now() - now < kTaken) return;
  yielding_waits_ = kSharedWaits;
  phase_ = Phase::yield;
}

}  // namespace tutti
