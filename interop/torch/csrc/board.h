// A board on which all ranks of a group can write and read: c10d's Store.
//
// No rank waits inside the board: a c10d Store serves one caller at a time, and a rank that waited in it for a key
// would keep its own other threads from writing the key that the other side waits for. So boards are polled.
//
// Thread-safety: all functions may be called from any thread. They throw Failure if the board has gone.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

namespace tutti::pytorch {

class Board {
 public:
  virtual ~Board() = default;
  virtual void Write(const std::string& key, const std::string& value) = 0;
  virtual bool Has(const std::string& key) = 0;
  // REQUIRES: it has the key.
  virtual std::string Read(const std::string& key) = 0;
};

// How often the board is looked at: often at first, since the others are usually on their way; later less often.
class Pauses {
 public:
  void Sleep() {
    std::this_thread::sleep_for(pause_);
    pause_ = std::min<std::chrono::nanoseconds>(pause_ + pause_ / 2, std::chrono::milliseconds(10));
  }

 private:
  std::chrono::nanoseconds pause_ = std::chrono::microseconds(200);
};

// How long a wait lasts: until a point in time, or until it is cancelled.
struct Patience {
  std::chrono::steady_clock::time_point until;
  const std::atomic<bool>& cancelled;
};

}  // namespace tutti::pytorch
