// Explores a small program of a few threads exhaustively: every interleaving, and every value that each load may read
// under C++20's memory model. docs/memory-model.md has its assumptions, and shows how a model is written.
//
// A model and the sources that it tests are compiled with the compiler's thread instrumentation (-fsanitize=thread), so
// every access to memory calls the checker instead of a sanitizer. The checker thus explores the library's own code,
// not a copy.
//
// Thread-safety: one thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tutti::model {

struct Program {
  std::vector<std::function<void()>> threads;
  std::function<void()> finally;  // called when all threads are done; sees all their effects
};
// Called for each execution. The threads share the memory that it allocates.
using MakeProgram = std::function<Program()>;

enum class Operation { load, store, rmw };
// The library also relies on these primitives. A test that drops one shows the need for it. `bell`: rings by write().
enum class Primitive { membarrier, stream_fence, futex_wake, thread_fence, bell };

struct Weakening {
  const volatile void* begin;
  std::size_t bytes;
  Operation operation;
  std::memory_order order;
};

struct Options {
  std::vector<Primitive> drop;
  std::size_t most_steps = 2'000;              // of one execution; more is a failure
  std::uint64_t most_executions = 20'000'000;  // more is a failure, too
  // Explores all interleavings one by one: does no store early and recognizes no state. For checking the checker.
  bool naive = false;
};

struct Result {
  std::string failure;  // what went wrong and the steps to it; empty: no execution failed
  std::uint64_t executions = 0;
  std::uint64_t finished = 0;  // of these, those that ran to their end; the others reached an already explored state
  std::uint64_t states = 0;
};

Result Explore(const MakeProgram& make, const Options& options = {});

// For creating a program. Name names a location in a failure's trace. Weaken makes a mutation: every such operation on
// these bytes uses `order` instead of its own.
void Name(const volatile void* begin, std::size_t bytes, const char* name);
void Weaken(const volatile void* begin, std::size_t bytes, Operation operation, std::memory_order order);
template <typename T>
void Name(const T& object, const char* name) {
  Name(&object, sizeof object, name);
}
template <typename T>
void Weaken(const T& object, Operation operation, std::memory_order order = std::memory_order_relaxed) {
  Weaken(&object, sizeof object, operation, order);
}

// For the program's threads. Ends the exploration if `holds` is false.
void Require(bool holds, const char* what);
// For a loop iteration that made no progress: returns when a value that was read since the last call has changed.
// sched_yield() does the same.
void Spin();
// Returns when `holds()` is true; `holds()` must change nothing while it is false. Cheaper than a loop with Spin().
void BeginAwait();
void AwaitOnce();
void EndAwait();
template <typename Condition>
void Await(Condition&& holds) {
  BeginAwait();
  while (!holds()) AwaitOnce();
  EndAwait();
}
// A non-temporal store: no release publishes it, only a StreamFence() does.
void StreamStore(std::uint32_t* to, std::uint32_t value);
void StreamFence();
// Every thread executes a full fence at its current point (membarrier's global command).
void Membarrier();
// A descriptor for read(), write() and poll() that counts like an eventfd.
int NewBell();
// Rings as another machine would: dropping `bell` does not drop these rings.
void RingFromOutside(int bell);

}  // namespace tutti::model
