// The protocol of a communicator's handle, in src/calls/lifecycle.h itself. Exactly one thread frees, once, and never
// what another thread still uses. An abort still reaches operations that the freeing thread waits for.
#include <gtest/gtest.h>

#include "src/calls/lifecycle.h"
#include "tests/model/checker.h"

namespace tutti::model {
namespace {

// A handle, and a communicator modeled as one word of memory, so that the checker sees every use, also after free.
struct Handle {
  calls::Lifecycle<> life;
  std::atomic<int> stop{0};  // set by an abort; a stuck operation polls it
  int* communicator = nullptr;
  int freed = 0;
};

void Use(const Handle& handle) { Require(*handle.communicator == 1, "the communicator is there"); }

void Join(Handle& handle) {
  if (!handle.life.EnterJoin().admitted) return;
  handle.communicator = new int(1);
  handle.life.Joined();
  handle.life.LeaveOperation();
}

void Free(Handle& handle) {
  while (!handle.life.TryFree()) Spin();
  delete handle.communicator;
  handle.communicator = nullptr;
  ++handle.freed;
  handle.life.Retire();
}

void Operate(Handle& handle) {
  if (!handle.life.EnterOperation().admitted) return;
  Use(handle);
  handle.life.LeaveOperation();
}

// An operation that only an abort ends.
void OperateStuck(Handle& handle) {
  if (!handle.life.EnterOperation().admitted) return;
  Use(handle);
  Await([&] { return handle.stop.load(std::memory_order_acquire) != 0; });
  handle.life.LeaveOperation();
}

void Ask(Handle& handle) {
  const auto entry = handle.life.EnterQuestion();
  if (!entry.admitted) return;
  if (entry.state.joined()) Use(handle);
  handle.life.LeaveQuestion();
}

void Destroy(Handle& handle) {
  if (handle.life.Claim(false)) Free(handle);
}

void Abort(Handle& handle) {
  const bool frees = handle.life.Claim(true);
  if (const auto entry = handle.life.EnterAbort(); entry.admitted) {
    if (entry.state.joined()) Use(handle);
    handle.stop.store(1, std::memory_order_release);
    handle.life.LeaveQuestion();
  }
  if (frees) Free(handle);
}

// A stream's thread starts a queued call, unless an abort came first.
void RunPending(Handle& handle) {
  if (handle.life.EnterPending().admitted) {
    Use(handle);
    handle.life.LeaveOperation();
  }
  handle.life.EndPending();
}

using Call = void (*)(Handle&);

Result Racing(const std::vector<Call>& calls, bool joined, bool queued = false,
              const std::function<void(Handle&)>& mutate = nullptr) {
  return Explore([&, joined, queued] {
    auto* const handle = new Handle;
    if (joined) Join(*handle);
    if (queued) {
      handle->life.EnterOperation();
      handle->life.AddPending();
      handle->life.LeaveOperation();
    }
    if (mutate) mutate(*handle);
    Program program;
    for (const auto call : calls) program.threads.emplace_back([=] { call(*handle); });
    program.finally = [=] {
      Require(handle->freed <= 1, "freed once");
      Require(handle->freed == (handle->life.Look().retired() ? 1 : 0), "retired if freed");
    };
    return program;
  });
}

TEST(LifecycleModel, CallsRacePairByPair) {
  const std::vector<Call> calls = {Operate, Ask, Destroy, Abort};
  for (const auto first : calls) {
    for (const auto second : calls) EXPECT_EQ(Racing({first, second}, true).failure, "");
    EXPECT_EQ(Racing({Join, first}, false).failure, "");
  }
}

TEST(LifecycleModel, ThreeCallsRace) {
  EXPECT_EQ(Racing({Operate, Abort, Destroy}, true).failure, "");
  EXPECT_EQ(Racing({Ask, Abort, Abort}, true).failure, "");
  EXPECT_EQ(Racing({Join, Abort, Ask}, false).failure, "");
}

TEST(LifecycleModel, AbortEndsWhatDestroyWaitsFor) {
  EXPECT_EQ(Racing({OperateStuck, Destroy, Abort}, true).failure, "");
  EXPECT_NE(Racing({OperateStuck, Destroy}, true).failure.find("nobody wakes"), std::string::npos);
}

TEST(LifecycleModel, QueuedCallsRunBeforeDestroyOrNotAtAll) {
  EXPECT_EQ(Racing({RunPending, Destroy}, true, true).failure, "");
  EXPECT_EQ(Racing({RunPending, Abort}, true, true).failure, "");
  EXPECT_EQ(Racing({RunPending, Abort, Destroy}, true, true).failure, "");
}

TEST(LifecycleModel, WhoeverUsesItEntersFirst) {
  EXPECT_NE(Racing({[](Handle& handle) { Use(handle); }, Destroy}, true).failure, "");
}

// All operations on the word are relaxed.
TEST(LifecycleModel, TheWordsOrdersAreNeeded) {
  const auto relaxed = [](Handle& handle) { Weaken(handle.life, Operation::rmw); };
  EXPECT_NE(Racing({Operate, Destroy}, true, false, relaxed).failure, "");
  EXPECT_NE(Racing({Join, Ask}, false, false, relaxed).failure, "");
}

}  // namespace
}  // namespace tutti::model
