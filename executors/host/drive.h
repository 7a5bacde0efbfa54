// Drives runs to their end and passes the time between: spins while there is a core for every rank, otherwise yields,
// and sleeps on the doorbell when a wait takes long. It cannot see other communicators or jobs on the cores, so a
// spinning thread offers its core now and then and observes whether another thread takes it, and for how long. Threads
// that wait give a core back soon. One that computes keeps it for a time slice, some milliseconds; offering it the core
// again would cost that time in every wait, so the driver then stops offering for a while.
//
// Thread-safety: a Driver is used by one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "base/clocks/running_clock.h"
#include "executors/host/doorbell.h"
#include "executors/host/run.h"

namespace tutti::host {

struct WaitPolicy {
  std::chrono::microseconds spin{0};   // poll, and check now and then whether another thread wants the core
  std::chrono::microseconds yield{0};  // then poll between yields; afterwards sleep
  std::chrono::microseconds check_every{1000};
  bool keeps_core = false;  // spin without looking
  // A thread asks for slices of this length before it first yields (AskForSlices); 0: it does not ask. The scheduler
  // takes a thread with short slices again and again before one with long ones, so all ranks of a core must ask, or none.
  std::chrono::microseconds slice{0};
};

// A caller has nothing else to do; a stream's thread waits while the caller computes.
enum class WhoWaits { caller, stream };

// `mode` is the setting: "spin", "yield", "sleep" or "" (adapts to whether busy threads outnumber cores).
WaitPolicy ChooseWaitPolicy(std::string_view mode, int ranks, int cores, WhoWaits who = WhoWaits::caller);

struct WaitCounts {
  std::uint64_t spins = 0;
  std::uint64_t yields = 0;
  std::uint64_t sleeps = 0;
  // Sleeps that ended without a ring, although there was something to do.
  std::uint64_t late = 0;
  // Another thread kept the core for a time slice after a yield. YieldPromptly() looks at one wait in
  // kPromptWaitsPerLook, so there were at least as many.
  std::uint64_t lost_slices = 0;
};

enum class DriveResult { done, faulted, stopped };

// What the caller wants done, in its thread, while it waits: `call(context)`, at the first look at the clock and then
// about every kMeanwhileEvery, or less often while it sleeps. It must not throw.
struct Meanwhile {
  void (*call)(void* context) = nullptr;  // null: nothing
  void* context = nullptr;
};

class Driver {
 public:
  using Clock = RunningClock;

  // `sleeper` may be null: long waits are then short naps (several communicators have several doorbells).
  Driver(Sleeper* sleeper, WaitPolicy policy) : sleeper_(sleeper), policy_(policy) {}

  // Calls sweep() until it returns done (or faulted), passing the time while it returns blocked. check(waited) is
  // called about every policy.check_every of waiting, at most 100 ms apart, with the time since anything moved in which
  // this process ran; false stops. REQUIRES: sweep is callable as Run::Progress(), check as bool(Clock::duration).
  template <typename Sweep, typename Check>
  DriveResult Drive(Sweep&& sweep, Check&& check) {
    Reset();
    for (;;) {
      switch (sweep()) {
        case Run::Progress::done: return DriveResult::done;
        case Run::Progress::faulted: return DriveResult::faulted;
        case Run::Progress::moved: Reset(); break;
        case Run::Progress::blocked:
          if (!PassTime([&] { return sweep() != Run::Progress::blocked; }, check)) return DriveResult::stopped;
          break;
      }
    }
  }

  // The beginning of a wait that is probably short, with neither a clock nor checks: where ranks share cores, calls
  // sweep() after each of a few yields, until it returns done or faulted; elsewhere does nothing. sweep() should poll
  // for as long as a peer on another core takes. The result is sweep()'s last; blocked: Drive() has to go on.
  template <typename Sweep>
  Run::Progress YieldPromptly(Sweep&& sweep) {
    auto progress = Run::Progress::blocked;
    if (first_phase() != Phase::yield) return progress;
    const bool timed = ++prompt_waits_ % kPromptWaitsPerLook == 0;
    for (int turn = 0; turn < kPromptYields; ++turn) {
      if (timed) {
        YieldAndLook();
      } else {
        Yield();
      }
      progress = sweep();
      if (progress == Run::Progress::done || progress == Run::Progress::faulted) break;
    }
    return progress;
  }

  const WaitCounts& counts() const { return counts_; }
  // Applies from the next wait on.
  void Use(const WaitPolicy& policy, const Meanwhile& meanwhile = {}) {
    policy_ = policy;
    meanwhile_ = meanwhile;
  }

 private:
  enum class Phase { spin, yield, sleep };

  // A new wait begins.
  void Reset() {
    polls_ = 0;
    looked_ = false;
    if (yielding_waits_ > 0) --yielding_waits_;
    phase_ = first_phase();
  }
  Phase first_phase() const {
    return policy_.spin.count() > 0 && yielding_waits_ == 0 ? Phase::spin
           : policy_.yield.count() > 0                      ? Phase::yield
                                                            : Phase::sleep;
  }
  template <typename Ready, typename Check>
  bool PassTime(Ready&& ready, Check&& check) {
    ++polls_;
    if (phase_ == Phase::sleep) {
      ++counts_.sleeps;
      if (sleeper_ != nullptr) {
        const bool alone = meanwhile_.call == nullptr;
        if (!sleeper_->Sleep(alone ? kLongestSleep : kSleepMeanwhile, ready) && ready()) {
          ++counts_.late;
          return true;
        }
      } else {
        Nap();
      }
    } else if (Poll()) {
      return true;
    }
    return !TimeToCheck() || check(checked_ - since_);
  }
  void Yield();
  Clock::duration YieldAndLook();  // the time until the core came back; notices a lost slice
  bool Poll();                     // true: not yet time to look at the clock
  void Nap();
  bool TimeToCheck();  // looks at the clock, and grows more patient
  void OfferCore();

  // Ranks that share a core come within two yields of each other; this leaves room for other threads on it.
  static constexpr int kPromptYields = 16;
  // Two looks at the clock take 50 ns, an all-reduce of 8 B on four ranks of two cores 2 us.
  static constexpr std::uint32_t kPromptWaitsPerLook = 8;
  // A sleeper is rung for progress; this is how soon it sees abort, timeout or a dead peer.
  static constexpr std::chrono::microseconds kLongestSleep = Lookout::kLongestSleep;
  // The same with a Meanwhile: something may wait for each of its calls, as long messages of MPI do piece by piece.
  static constexpr std::chrono::microseconds kSleepMeanwhile{1000};

  Sleeper* sleeper_;
  WaitPolicy policy_;
  Meanwhile meanwhile_;
  WaitCounts counts_;
  std::uint32_t polls_ = 0;
  std::uint32_t prompt_waits_ = 0;
  Phase phase_ = Phase::spin;
  bool looked_ = false;
  int yielding_waits_ = 0;  // waits, this one included, that do not spin
  Lookout lookout_;
  Clock::time_point since_;
  Clock::time_point checked_;
  Clock::time_point called_;            // meanwhile_
  Clock::time_point keeps_core_until_;  // after a lost slice
  Clock::duration keeps_core_for_{};    // after the last one; 0: the core has come back soon since
};

}  // namespace tutti::host
