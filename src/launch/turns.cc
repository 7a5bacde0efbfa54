#include "src/launch/turns.h"

#include <chrono>

namespace tutti::launch {
namespace {

// How often a wait asks whether it is void: nothing wakes it then.
constexpr std::chrono::milliseconds kLookEvery{20};

}  // namespace

std::uint64_t Turns::Take() {
  const std::lock_guard lock(mutex_);
  taken_.insert(next_);
  return next_++;
}

void Turns::End(std::uint64_t number) {
  {
    const std::lock_guard lock(mutex_);
    if (taken_.erase(number) == 0) return;
  }
  ended_.notify_all();
}

bool Turns::Await(std::uint64_t number, const std::function<bool()>& is_void) {
  std::unique_lock lock(mutex_);
  while (*taken_.begin() != number) {
    ended_.wait_for(lock, kLookEvery);
    if (*taken_.begin() != number && is_void()) return false;
  }
  return true;
}

}  // namespace tutti::launch
