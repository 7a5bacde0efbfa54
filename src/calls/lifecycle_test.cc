#include "src/calls/lifecycle.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace tutti::calls {
namespace {

TEST(Lifecycle, AdmitsOperationsOnlyWhileItIsReady) {
  Lifecycle<> life;
  EXPECT_FALSE(life.EnterOperation().admitted) << "joining";
  EXPECT_TRUE(life.EnterQuestion().admitted);
  life.LeaveQuestion();
  life.Joined();
  EXPECT_TRUE(life.EnterOperation().admitted);
  life.LeaveOperation();
  life.Finalise();
  EXPECT_FALSE(life.EnterOperation().admitted);
  EXPECT_TRUE(life.EnterQuestion().admitted);
  life.LeaveQuestion();
  EXPECT_TRUE(life.Claim(false));
  EXPECT_FALSE(life.EnterQuestion().admitted);
  EXPECT_TRUE(life.EnterAbort().admitted);
  EXPECT_FALSE(life.TryFree()) << "an abort is inside";
  life.LeaveQuestion();
  EXPECT_TRUE(life.TryFree());
  EXPECT_FALSE(life.EnterAbort().admitted);
  life.Retire();
  EXPECT_TRUE(life.Look().retired());
  EXPECT_EQ(life.Look().operations(), 0U) << "refused calls leave nothing behind";
  EXPECT_EQ(life.Look().questions(), 0U);
}

TEST(Lifecycle, APendingCallKeepsDestroyWaitingButNotAbort) {
  for (const bool abort : {false, true}) {
    Lifecycle<> life;
    life.Joined();
    ASSERT_TRUE(life.EnterOperation().admitted);
    ASSERT_TRUE(life.AddPending());
    life.LeaveOperation();
    EXPECT_FALSE(life.Look().idle());
    EXPECT_TRUE(life.Claim(abort));
    EXPECT_EQ(life.TryFree(), abort);
    EXPECT_EQ(life.EnterPending().admitted, !abort);
    if (abort) continue;
    life.LeaveOperation();
    life.EndPending();
    EXPECT_TRUE(life.TryFree());
  }
}

TEST(Lifecycle, TooManyPendingCallsAreRefusedAndLeaveNothing) {
  Lifecycle<> life;
  life.Joined();
  ASSERT_TRUE(life.EnterOperation().admitted);
  for (std::uint64_t i = 0; i < LifeState::kMostPending; ++i) ASSERT_TRUE(life.AddPending());
  EXPECT_FALSE(life.AddPending());
  EXPECT_EQ(life.Look().pending(), LifeState::kMostPending);
  EXPECT_EQ(life.Look().operations(), 1U);
}

// No other thread may touch what the claim's winner frees (here a plain number): the thread sanitizer checks that.
TEST(Lifecycle, NobodyIsInsideOnceItIsFreed) {
  for (int round = 0; round < 200; ++round) {
    Lifecycle<> life;
    life.Joined();
    int communicator = 1;
    std::atomic<int> claims{0};
    const auto close = [&](bool abort) {
      const bool mine = life.Claim(abort);
      if (abort && life.EnterAbort().admitted) {
        EXPECT_EQ(communicator, 1);
        life.LeaveQuestion();
      }
      if (!mine) return;
      ++claims;
      while (!life.TryFree()) std::this_thread::yield();
      communicator = 0;
      life.Retire();
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&] {
        while (life.EnterOperation().admitted) {
          EXPECT_EQ(communicator, 1);
          life.LeaveOperation();
        }
      });
    }
    threads.emplace_back([&] { close(true); });
    threads.emplace_back([&] { close(false); });
    close(true);
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(claims, 1);
    EXPECT_EQ(communicator, 0);
  }
}

}  // namespace
}  // namespace tutti::calls
