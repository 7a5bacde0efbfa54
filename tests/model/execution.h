// One run of a model's threads. They are fibers that hand over at each atomic operation, so the explorer decides which
// one continues and what each load reads. The compiler's thread instrumentation calls it for every access to memory;
// the wrapped system calls do so for the rest.
//
// Thread-safety: one execution at a time, in one thread.
#pragma once

#include <csetjmp>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/model/checker.h"
#include "tests/model/fiber.h"
#include "tests/model/heap.h"
#include "tests/model/memory.h"

namespace tutti::model {

// Makes choices, and remembers them.
class Guide : public Chooser {
 public:
  // The execution has reached a state. Returns false if that was explored before.
  virtual bool IsNew(const Hash& state) = 0;
};

class Execution {
 public:
  enum class End { finished, known, stutters, failed };

  explicit Execution(Guide& guide);
  ~Execution();

  End Run(const MakeProgram& make, const Options& options);
  const std::string& failure() const { return failure_; }
  bool membarrier_seen() const { return membarrier_seen_; }

  // Called by the program during its creation.
  void Weaken(const Weakening& weakening) { weakenings_.push_back(weakening); }
  void Name(const volatile void* begin, std::size_t bytes, std::string name);

  // Called from fibers, and at the end.
  bool checking() const { return !inside_ && (phase_ == Phase::threads || phase_ == Phase::end); }
  bool allocating() const { return !inside_ && (phase_ == Phase::making || phase_ == Phase::threads); }
  std::uint64_t Load(const volatile void* address, int bytes, std::memory_order order);
  void Store(volatile void* address, int bytes, std::uint64_t value, std::memory_order order);
  template <typename Update>
  std::uint64_t Rmw(volatile void* address, int bytes, std::memory_order order, std::memory_order failed,
                    Update&& update) {
    HandOver();
    TouchAtomic(address, bytes);
    order = Weakened(address, Operation::rmw, order);
    const auto old = memory_.Rmw(actor_, address, bytes, order, failed, update);
    Tell("rmw", address, old, order);
    return old;
  }
  void Fence(std::memory_order order);
  void Touch(const volatile void* address, std::size_t bytes, Access access);
  void StreamFence();
  void Membarrier();
  void Spin();
  void BeginAwait();
  void AwaitOnce();  // the condition does not hold
  void EndAwait();
  bool Lock(const void* mutex, bool waits);
  void Unlock(const void* mutex);
  bool FutexWait(const void* word, std::uint32_t value);  // false: the word had another value
  void FutexWake(const void* word);
  int NewBell() { return kFirstBell + bells_++; }
  static bool IsBell(int descriptor) { return descriptor >= kFirstBell; }
  void RingBell(int bell);
  int AwaitBells(std::vector<int> bells);  // returns the first that rings
  bool SilenceBell(int bell);              // false: it does not ring
  [[noreturn]] void Fail(const std::string& why);
  bool Dropped(Primitive primitive) const;

  void* Allocate(std::size_t bytes) { return heap_.Allocate(phase_ == Phase::making ? kEnd : actor_, bytes); }
  bool Free(void* memory);

 private:
  friend class Entry;
  enum class Phase { idle, making, threads, end };
  enum class Wait { none, spin, lock, futex, bell, over };
  static constexpr int kFirstBell = 1 << 20;  // above all descriptors of the system
  struct Thread {
    Wait wait = Wait::none;
    const void* object = nullptr;    // of a lock or a futex
    std::vector<int> bells;          // any of these
    std::vector<ReadMark> waits_on;  // of a spin
    bool spun = false;
    Hash before;  // the past before an await
    Hash turn;    // the past at the await's last turn
  };
  // The model of a mutex, a futex or a bell.
  struct Monitor {
    const void* object = nullptr;
    View view;
    int owner = -1;
    std::uint64_t rings = 0;
    Hash past;
  };
  struct Event {
    int actor;
    const char* what;
    const volatile void* address;
    std::uint64_t value;
    std::memory_order order;
  };

  // Called before an operation that other threads' operations may precede: hands over to the thread that continues.
  void HandOver();
  // One thread's stores (except sequentially consistent ones) and fences are done early: whatever other threads could
  // do or read before them, they can also do or read after them. This no longer holds once other threads' membarriers
  // publish what this thread has done so far.
  bool early() const { return !membarrier_seen_ && !options_->naive; }
  void Block(Wait wait, const void* object);
  int Pick();
  bool Enabled(int actor) const;
  void Leave(End end);
  void Body(int actor);
  void TouchAtomic(const volatile void* address, int bytes);
  std::memory_order Weakened(const volatile void* address, Operation operation, std::memory_order order) const;
  Monitor& MonitorOf(const void* object);
  const Monitor* Known(const void* object) const;
  bool Rings(int bell) const;
  void Meet(Monitor& monitor, bool happens_before, std::uint64_t what);
  void Tell(const char* what, const volatile void* address, std::uint64_t value,
            std::memory_order order = std::memory_order_relaxed);
  std::string NameOf(const volatile void* address) const;
  std::string Story() const;

  Guide& guide_;
  Memory memory_;
  Heap heap_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::jmp_buf main_;
  Phase phase_ = Phase::idle;
  bool inside_ = false;  // the checker is at work, not the model
  bool starting_ = false;
  End ended_ = End::finished;
  int actor_ = kEnd;
  int bells_ = 0;
  int actors_ = 0;
  std::size_t steps_ = 0;
  const Options* options_ = nullptr;
  const Program* program_ = nullptr;
  std::array<Thread, kMostThreads> threads_;
  std::vector<std::unique_ptr<Monitor>> monitors_;
  std::vector<Weakening> weakenings_;
  struct Named {
    const volatile std::byte* begin;
    std::size_t bytes;
    std::string name;
  };
  std::vector<Named> names_;
  std::vector<Event> events_;
  std::string failure_;
  bool membarrier_seen_ = false;
};

// Held during every call into the checker: its own accesses are not the model's.
class Entry {
 public:
  explicit Entry(Execution& execution) : execution_(execution), was_(std::exchange(execution.inside_, true)) {}
  ~Entry() { execution_.inside_ = was_; }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

 private:
  Execution& execution_;
  bool was_;
};

// The running execution, for the compiler's hooks, which get no such argument; null: none.
Execution* Running();
// The same if it checks what happens, null otherwise.
Execution* Checking();

}  // namespace tutti::model
