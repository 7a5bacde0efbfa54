// A board that all ranks of a group can write and read: c10d's Store.
//
// No rank blocks inside the board. A c10d Store serves one caller at a time, so a rank that blocked in it on a key
// would keep its own other threads from writing the key that the peer waits for. Callers poll instead.
//
// Thread-safety: all functions may be called from any thread. They throw Failure if the board is gone.
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
  // Writes `value` if the key has none; returns the one that it has then. Of several claims one succeeds.
  virtual std::string Claim(const std::string& key, const std::string& value) = 0;
  virtual bool Has(const std::string& key) = 0;
  // REQUIRES: the board has the key.
  virtual std::string Read(const std::string& key) = 0;
};

// Pauses between polls of the board: short at first, since the other ranks usually arrive soon, then longer.
class Pauses {
 public:
  void Sleep() {
    std::this_thread::sleep_for(pause_);
    pause_ = std::min<std::chrono::nanoseconds>(pause_ + pause_ / 2, std::chrono::milliseconds(10));
  }

 private:
  std::chrono::nanoseconds pause_ = std::chrono::microseconds(200);
};

// The limit of a wait: a point in time, or a cancellation.
struct Patience {
  std::chrono::steady_clock::time_point until;
  const std::atomic<bool>& cancelled;
};

}  // namespace tutti::pytorch
