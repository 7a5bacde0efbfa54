#include "src/calls/turns.h"

#include <chrono>

namespace tutti::calls {
namespace {

// How often a wait asks whether it is void: nothing wakes it then.
constexpr std::chrono::milliseconds kLookForTurn{20};

}  // namespace

std::uint64_t Turns::Take(TurnKind kind) {
  const std::lock_guard lock(mutex_);
  taken_.emplace(next_, kind);
  return next_++;
}

void Turns::End(std::uint64_t number) {
  {
    const std::lock_guard lock(mutex_);
    if (taken_.erase(number) == 0) return;
  }
  ended_.notify_all();
}

bool Turns::First(std::uint64_t number) const {
  const auto& [first, kind] = *taken_.begin();
  return first == number || (kind == TurnKind::awaits_signal && taken_.at(number) == TurnKind::sends);
}

bool Turns::HasCome(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  return First(number);
}

bool Turns::Await(std::uint64_t number, const std::function<bool()>& is_void) {
  std::unique_lock lock(mutex_);
  while (!First(number)) {
    ended_.wait_for(lock, kLookForTurn);
    if (!First(number) && is_void()) return false;
  }
  return true;
}

}  // namespace tutti::calls
