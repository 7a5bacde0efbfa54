// Explores a small program of a few threads exhaustively: every interleaving, and every value that each load may read
// under C++20's memory model. docs/memory-model.md has its assumptions, and shows how a model is written.
//
// A model is compiled with the compiler's thread instrumentation (-fsanitize=thread), and so are the sources that it
// is about: every access to memory calls the checker instead of a sanitizer. So the library's own code is explored, not
// a copy of it.
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
  std::function<void()> finally;  // called when all threads are done, and sees what all of them did
};
// Called for each execution. The threads share what it allocates.
using MakeProgram = std::function<Program()>;

enum class Operation { load, store, rmw };
// What the library relies on besides atomics. A test that drops one shows that it is needed. `bell`: rings by write().
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
  // Explores all interleavings one by one: does no store early and recognises no state. To check the checker.
  bool naive = false;
};

struct Result {
  std::string failure;  // what went wrong, and what led there; empty: nothing, in no execution
  std::uint64_t executions = 0;
  std::uint64_t finished = 0;  // of these, those that ran to their end; the others reached a state explored before
  std::uint64_t states = 0;
};

Result Explore(const MakeProgram& make, const Options& options = {});

// For the making of a program. Name names a location in a failure's story. Weaken makes a mutation: every such
// operation on these bytes has `order` instead of its own.
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
// For a turn of a loop that has achieved nothing: goes on when something that was read since the last call has changed.
// sched_yield() does the same.
void Spin();
// Returns when `holds()` is true; it must change nothing while it is false. Cheaper than a loop with Spin().
void BeginAwait();
void AwaitOnce();
void EndAwait();
template <typename Condition>
void Await(Condition&& holds) {
  BeginAwait();
  while (!holds()) AwaitOnce();
  EndAwait();
}
// A store past the caches: no release publishes it, only a StreamFence() does.
void StreamStore(std::uint32_t* to, std::uint32_t value);
void StreamFence();
// Every thread executes a full fence wherever it is (membarrier's global command).
void Membarrier();
// A descriptor for read(), write() and poll(). It counts, as an eventfd does.
int NewBell();
// Rings as another machine does: these rings are never dropped.
void RingFromOutside(int bell);

}  // namespace tutti::model
