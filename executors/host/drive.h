// Drives runs to their end and passes the time between: spin while there is a core for every rank, yield when there is
// not, sleep on the doorbell when it takes long.
//
// Thread-safety: a Driver is used by one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string_view>

#include "executors/host/doorbell.h"
#include "executors/host/run.h"

namespace tutti {

struct WaitPolicy {
  std::chrono::microseconds spin{0};   // poll without giving the core away
  std::chrono::microseconds yield{0};  // then poll between yields; afterwards sleep
};

// `mode` is the setting: "spin", "yield", "sleep" or "" (adapts to whether ranks outnumber cores).
WaitPolicy ChooseWaitPolicy(std::string_view mode, int ranks, int cores);

struct WaitCounts {
  std::uint64_t spins = 0;
  std::uint64_t yields = 0;
  std::uint64_t sleeps = 0;
};

enum class DriveResult { done, faulted, stopped };

class Driver {
 public:
  // Called about every millisecond of waiting, at most 100 ms apart, with the time since anything moved. False stops.
  using Check = std::function<bool(std::chrono::steady_clock::duration)>;

  // `sleeper` may be null: then long waits are short naps (whoever drives several communicators has several doorbells).
  Driver(Sleeper* sleeper, WaitPolicy policy) : sleeper_(sleeper), policy_(policy) {}

  // Calls sweep() until it returns done (or faulted), passing the time while it returns blocked.
  // REQUIRES: sweep is callable as Run::Progress().
  template <typename Sweep>
  DriveResult Drive(Sweep&& sweep, const Check& check) {
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

  const WaitCounts& counts() const { return counts_; }

 private:
  using Clock = std::chrono::steady_clock;
  enum class Phase { spin, yield, sleep };

  // A new wait begins.
  void Reset() {
    polls_ = 0;
    looked_ = false;
    phase_ = first_phase();
  }
  Phase first_phase() const {
    return policy_.spin.count() > 0 ? Phase::spin : policy_.yield.count() > 0 ? Phase::yield : Phase::sleep;
  }
  template <typename Ready>
  bool PassTime(Ready&& ready, const Check& check) {
    ++polls_;
    if (phase_ != Phase::sleep) return Poll() || LookAtClock(check);
    ++counts_.sleeps;
    if (sleeper_ != nullptr) {
      sleeper_->Sleep(kLongestSleep, ready);
    } else {
      Nap();
    }
    return LookAtClock(check);
  }
  bool Poll();  // true: not yet time to look at the clock
  void Nap();
  bool LookAtClock(const Check& check);

  // A sleeper is rung for progress; this is how soon it sees abort, timeout or a dead peer.
  static constexpr std::chrono::microseconds kLongestSleep{50'000};

  Sleeper* sleeper_;
  WaitPolicy policy_;
  WaitCounts counts_;
  std::uint32_t polls_ = 0;
  Phase phase_ = Phase::spin;
  bool looked_ = false;
  Clock::time_point since_;
  Clock::time_point checked_;
};

}  // namespace tutti
