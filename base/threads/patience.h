// How control calls wait for other threads of this process: yields first, then short naps, because nothing wakes them.
//
// Thread-safety: a Patience belongs to one wait of one thread.
#pragma once

#include <sched.h>

#include <chrono>
#include <thread>

namespace tutti {

class Patience {
 public:
  void Pause() {
    // A call about to leave needs a few microseconds. A stream's work may take minutes.
    if (++pauses_ < kYields) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }

 private:
  static constexpr int kYields = 1000;
  static constexpr std::chrono::microseconds kNap{200};

  int pauses_ = 0;
};

}  // namespace tutti
