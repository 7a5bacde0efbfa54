// The life of a communicator's handle, as one word: every transition is one atomic step, and the thread whose step sets
// the bit of a one-time transition claims it. docs/lifecycles.md draws it.
//
//   joining -> joined -> finalised -> closing -> freeing -> retired
//
// The protocol:
// - A thread enters before it touches the communicator and leaves afterwards. The count and the bits share the word, so
//   one order holds for all. Either the entry precedes the claim, and the freeing thread waits for it; or it follows
//   the claim, sees the bit, and is refused.
// - Operations (calls that may begin work) are refused before the communicator exists and after it is finalised;
//   questions (getters) are refused once it is closing. A call that waits on a stream is pending: Finalize and Destroy
//   wait for it, Abort does not. It enters only when it runs, and is refused then if an abort came first.
// - Exactly one of all threads that abort, destroy, or fail to join wins Claim(). Only the winner may call TryFree()
//   and then Retire(). Until the communicator is being freed, a later Abort still enters, to stop what the winner waits
//   for.
//
// Memory order: leaving releases, freeing acquires, and all steps in between are read-modify-writes of one word. So
// everything done inside happens before the communicator is freed. Joined() releases the communicator to the threads
// that enter (acquire) and find it. The word need not be ordered with any second variable.
//
// Thread-safety: all members, from any thread. `Word` is std::atomic<std::uint64_t>, or a checker's model of it.
#pragma once

#include <atomic>
#include <cstdint>

namespace tutti::calls {

// The word as it was at one moment.
class LifeState {
 public:
  constexpr explicit LifeState(std::uint64_t word) : word_(word) {}

  static constexpr std::uint64_t kJoined = 1, kFinalised = 2, kClosing = 4, kAborting = 8, kFreeing = 16, kRetired = 32;
  // Threads inside with an operation, threads inside with a question, and calls on streams that are not done yet. No
  // program has 65,536 threads inside one communicator; pending calls are counted before they are let in.
  static constexpr std::uint64_t kOperation = 1ULL << 8, kQuestion = 1ULL << 24, kPending = 1ULL << 40;
  static constexpr std::uint64_t kMostPending = 1ULL << 23;

  constexpr bool joined() const { return (word_ & kJoined) != 0; }
  constexpr bool finalised() const { return (word_ & kFinalised) != 0; }
  constexpr bool closing() const { return (word_ & kClosing) != 0; }
  constexpr bool aborting() const { return (word_ & kAborting) != 0; }
  constexpr bool freeing() const { return (word_ & kFreeing) != 0; }
  constexpr bool retired() const { return (word_ & kRetired) != 0; }
  constexpr bool takes_operations() const { return (word_ & (kJoined | kFinalised | kClosing)) == kJoined; }

  constexpr std::uint64_t operations() const { return word_ >> 8 & 0xffff; }
  constexpr std::uint64_t questions() const { return word_ >> 24 & 0xffff; }
  constexpr std::uint64_t pending() const { return word_ >> 40; }
  // Finalize has nothing left to wait for.
  constexpr bool idle() const { return operations() == 0 && pending() == 0; }
  constexpr bool can_be_freed() const {
    return operations() == 0 && questions() == 0 && (aborting() || pending() == 0);
  }

  constexpr std::uint64_t word() const { return word_; }

 private:
  std::uint64_t word_;
};

template <typename Word = std::atomic<std::uint64_t>>
class Lifecycle {
 public:
  LifeState Look() const { return LifeState(word_.load(std::memory_order_acquire)); }

  // An attempt to enter, and the state it found. A refused attempt leaves nothing to undo.
  struct Entry {
    bool admitted;
    LifeState state;
  };
  // Admitted if the state
  // - takes operations:
  Entry EnterOperation() {
    return Enter(LifeState::kOperation, [](LifeState state) { return state.takes_operations(); });
  }
  // - is not closing: a join begins, or a question.
  Entry EnterJoin() {
    return Enter(LifeState::kOperation, [](LifeState state) { return !state.closing(); });
  }
  Entry EnterQuestion() {
    return Enter(LifeState::kQuestion, [](LifeState state) { return !state.closing(); });
  }
  // - is not freeing: an abort stops what runs.
  Entry EnterAbort() {
    return Enter(LifeState::kQuestion, [](LifeState state) { return !state.freeing(); });
  }
  // - is not aborting: a pending call begins to run. REQUIRES: it is counted as pending.
  Entry EnterPending() {
    return Enter(LifeState::kOperation, [](LifeState state) { return !state.aborting(); });
  }
  void LeaveOperation() { word_.fetch_sub(LifeState::kOperation, std::memory_order_release); }
  void LeaveQuestion() { word_.fetch_sub(LifeState::kQuestion, std::memory_order_release); }

  // REQUIRES: inside with an operation. False: there are too many.
  bool AddPending() {
    // Relaxed: the stream's mutex publishes the pending call to its thread.
    const LifeState before(word_.fetch_add(LifeState::kPending, std::memory_order_relaxed));
    if (before.pending() < LifeState::kMostPending) return true;
    EndPending();
    return false;
  }
  void EndPending() { word_.fetch_sub(LifeState::kPending, std::memory_order_release); }

  // The communicator exists now, or never will. Returns the state before that.
  LifeState Joined() { return LifeState(word_.fetch_or(LifeState::kJoined, std::memory_order_acq_rel)); }
  // No operation enters from now on.
  void Finalise() { word_.fetch_or(LifeState::kFinalised, std::memory_order_acq_rel); }

  // True for exactly one caller, which must free.
  bool Claim(bool abort) {
    const auto bits = LifeState::kClosing | (abort ? LifeState::kAborting : 0);
    return !LifeState(word_.fetch_or(bits, std::memory_order_acq_rel)).closing();
  }
  // True: no thread is inside, and none will be. REQUIRES: the caller won the claim, and TryFree was not true before.
  bool TryFree() {
    auto seen = word_.load(std::memory_order_relaxed);
    return LifeState(seen).can_be_freed() &&
           word_.compare_exchange_strong(seen, seen | LifeState::kFreeing, std::memory_order_acq_rel,
                                         std::memory_order_relaxed);
  }
  // REQUIRES: TryFree was true. A thread that sees this finds the communicator gone.
  void Retire() { word_.fetch_or(LifeState::kRetired, std::memory_order_release); }

 private:
  template <typename Admits>
  Entry Enter(std::uint64_t count, Admits&& admits) {
    const LifeState before(word_.fetch_add(count, std::memory_order_acquire));
    const bool admitted = admits(before);
    // The refused entry was counted briefly: the freeing thread looks again.
    if (!admitted) [[unlikely]]
      word_.fetch_sub(count, std::memory_order_release);
    return {admitted, before};
  }

  Word word_{0};
};

}  // namespace tutti::calls
