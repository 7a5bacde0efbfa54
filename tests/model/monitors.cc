// Mutexes, futexes and bells: the blocking and waking primitives besides the atomics.
#include <algorithm>

#include "tests/model/execution.h"

namespace tutti::model {
namespace {

const void* ObjectOf(int bell) { return reinterpret_cast<const void*>(static_cast<std::uintptr_t>(bell)); }

}  // namespace

// Returns null if the object has not been used yet.
const Execution::Monitor* Execution::Known(const void* object) const {
  const auto known = std::ranges::find(monitors_, object, [](const auto& monitor) { return monitor->object; });
  return known == monitors_.end() ? nullptr : known->get();
}

bool Execution::Rings(int bell) const {
  const auto* const known = Known(ObjectOf(bell));
  return known != nullptr && known->rings > 0;
}

Execution::Monitor& Execution::MonitorOf(const void* object) {
  if (const auto* const known = Known(object)) return const_cast<Monitor&>(*known);
  auto& fresh = *monitors_.emplace_back(std::make_unique<Monitor>());
  fresh.object = object;
  fresh.past.Fold(reinterpret_cast<std::uint64_t>(object));
  memory_.Keep(fresh.view);
  return fresh;
}

// Orders the actor with all other users of the monitor.
void Execution::Meet(Monitor& monitor, bool happens_before, std::uint64_t what) {
  memory_.Learn(actor_, monitor.view, happens_before);
  monitor.view.Join(memory_.Knowledge(actor_));
  memory_.Note(actor_, monitor.past.low);
  monitor.past.Fold(static_cast<std::uint64_t>(actor_) << 32 | what);
  memory_.Note(actor_, what);
  memory_.Tick(actor_);
  memory_.Wrote(actor_);
}

bool Execution::Lock(const void* mutex, bool waits) {
  auto& monitor = MonitorOf(mutex);
  if (waits) {
    Block(Wait::lock, mutex);
  } else {
    HandOver();
  }
  if (monitor.owner >= 0) {
    memory_.Note(actor_, monitor.past.low);
    Tell("lock is taken", mutex, 0);
    return false;
  }
  monitor.owner = actor_;
  Meet(monitor, true, 1);
  Tell("lock", mutex, 0);
  return true;
}

void Execution::Unlock(const void* mutex) {
  HandOver();
  auto& monitor = MonitorOf(mutex);
  monitor.owner = -1;
  Meet(monitor, true, 2);
  Tell("unlock", mutex, 0);
}

// The kernel compares under the lock that wakers take. That orders memory, but releases nothing.
bool Execution::FutexWait(const void* word, std::uint32_t value) {
  HandOver();
  auto& monitor = MonitorOf(word);
  Meet(monitor, false, 3);
  const auto found = memory_.Load(actor_, word, 4, std::memory_order_relaxed);
  Meet(monitor, false, 4);
  Tell("futex wait", word, found);
  if (found != value) return false;
  Block(Wait::futex, word);
  return true;
}

void Execution::FutexWake(const void* word) {
  if (Dropped(Primitive::futex_wake)) return;
  HandOver();
  auto& monitor = MonitorOf(word);
  Meet(monitor, false, 5);
  Tell("futex wake", word, 0);
  for (int a = 0; a < actors_; ++a) {
    if (threads_[a].wait != Wait::futex || threads_[a].object != word) continue;
    threads_[a].wait = Wait::none;
    memory_.Note(a, monitor.past.low);
  }
}

void Execution::RingBell(int bell) {
  HandOver();
  auto& monitor = MonitorOf(ObjectOf(bell));
  ++monitor.rings;
  Meet(monitor, true, 6);
  Tell("ring", ObjectOf(bell), monitor.rings);
}

// A poll() that finds a ring happens after the thread that rang.
int Execution::AwaitBells(std::vector<int> bells) {
  auto& thread = threads_[actor_];
  thread.bells = std::move(bells);
  Block(Wait::bell, nullptr);
  const auto rings = std::ranges::find_if(thread.bells, [this](int bell) { return Rings(bell); });
  auto& monitor = MonitorOf(ObjectOf(*rings));
  Meet(monitor, true, 7);
  Tell("rung", ObjectOf(*rings), monitor.rings);
  return static_cast<int>(rings - thread.bells.begin());
}

// The descriptor does not block, because another thread may have read the ring since.
bool Execution::SilenceBell(int bell) {
  HandOver();
  auto& monitor = MonitorOf(ObjectOf(bell));
  const bool rang = monitor.rings > 0;
  monitor.rings = 0;
  Meet(monitor, rang, 8);
  Tell("silence", ObjectOf(bell), rang);
  return rang;
}

}  // namespace tutti::model
