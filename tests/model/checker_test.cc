// Bugs that the checker must find in wrong programs.
#include "tests/model/checker.h"

#include <gtest/gtest.h>

#include <array>

namespace tutti::model {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;

struct Shared {
  std::array<std::atomic<int>, 3> at{};
  std::array<int, 4> got{};
  int plain = 0;

  std::atomic<int>& x() { return at[0]; }
  std::atomic<int>& y() { return at[1]; }
};

Result PlainMessage(std::memory_order stores, std::memory_order loads) {
  return Explore([=] {
    auto* const s = new Shared;
    return Program{{[=] {
                      s->plain = 7;
                      s->x().store(1, stores);
                    },
                    [=] {
                      while (s->x().load(loads) == 0) Spin();
                      Require(s->plain == 7, "the message is the one that was sent");
                    }},
                   nullptr};
  });
}

TEST(ModelChecker, FindsRaces) {
  EXPECT_EQ(PlainMessage(release, acquire).failure, "");
  EXPECT_NE(PlainMessage(relaxed, acquire).failure.find("races with a write"), std::string::npos);
  EXPECT_NE(PlainMessage(release, relaxed).failure.find("races with a write"), std::string::npos);
}

Result StreamedMessage(bool fence) {
  return Explore([=] {
    struct Block {
      std::atomic<int> flag{0};
      std::uint32_t data = 0;
    };
    auto* const s = new Block;
    return Program{{[=] {
                      StreamStore(&s->data, 7);
                      if (fence) StreamFence();
                      s->flag.store(1, release);
                    },
                    [=] {
                      while (s->flag.load(acquire) == 0) Spin();
                      Require(s->data == 7, "the message is the one that was sent");
                    }},
                   nullptr};
  });
}

TEST(ModelChecker, ReleasesDoNotPublishStreamedStores) {
  EXPECT_EQ(StreamedMessage(true).failure, "");
  EXPECT_NE(StreamedMessage(false).failure.find("streamed"), std::string::npos);
}

// Plain stores that a release orders, read by relaxed loads (like one read of memory that another process may write).
TEST(ModelChecker, AtomicLoadsSeePlainStores) {
  const auto result = [](std::memory_order order) {
    return Explore([=] {
      auto* const s = new Shared;
      auto* const word = new int(0);
      return Program{{[=] {
                        for (int i = 1; i <= 2; ++i) {
                          *word = i;
                          s->x().store(i, order);
                          Await([&] { return s->y().load(acquire) == i; });
                        }
                      },
                      [=] {
                        for (int i = 1; i <= 2; ++i) {
                          Await([&] { return s->x().load(acquire) == i; });
                          Require(std::atomic_ref(*word).load(relaxed) == i, "the load sees the store");
                          s->y().store(i, release);
                        }
                      }},
                     nullptr};
    });
  };
  EXPECT_EQ(result(release).failure, "");
  EXPECT_NE(result(relaxed).failure.find("races with a write"), std::string::npos);
}

TEST(ModelChecker, FindsThatNobodyWakes) {
  const auto result = Explore([] {
    auto* const s = new Shared;
    return Program{{[=] {
                      while (s->x().load(relaxed) == 0) Spin();
                      s->y().store(1, relaxed);
                    },
                    [=] {
                      while (s->y().load(relaxed) == 0) Spin();
                      s->x().store(1, relaxed);
                    }},
                   nullptr};
  });
  EXPECT_NE(result.failure.find("nobody wakes thread(s) 0 1"), std::string::npos);
}

TEST(ModelChecker, FindsUseAfterFree) {
  const auto result = Explore([] {
    auto* const s = new Shared;
    auto* const data = new int(1);
    return Program{{[=] {
                      s->got[0] = *data;
                      s->x().store(1, release);
                    },
                    [=] {
                      while (s->x().load(acquire) == 0) Spin();
                      delete data;
                      s->y().store(1, release);
                    },
                    [=] {
                      while (s->y().load(acquire) == 0) Spin();
                      s->got[1] = *data;
                    }},
                   nullptr};
  });
  EXPECT_NE(result.failure.find("freed"), std::string::npos);
}

// The checker does not confuse states: many executions share few states.
TEST(ModelChecker, ExploresEachStateOnce) {
  Result result = Explore([] {
    auto* const s = new Shared;
    const auto body = [s](int own) {
      return [=] {
        for (int i = 0; i < 5; ++i) s->at[own].fetch_add(1, relaxed);
      };
    };
    return Program{{body(0), body(1), body(2)}, [=] {
                     for (auto& each : s->at) Require(each.load(relaxed) == 5, "all have counted");
                   }};
  });
  EXPECT_EQ(result.failure, "");
  EXPECT_LE(result.states, 6U * 6U * 6U);
}

}  // namespace
}  // namespace tutti::model
