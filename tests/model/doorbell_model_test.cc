// Sleeping and waking, in executors/host/doorbell.cc itself. No thread sleeps forever after the event that it waits
// for, nor until a time limit: the model's sleeps have none.
#include <gtest/gtest.h>

#include "executors/host/doorbell.h"
#include "tests/model/checker.h"

namespace tutti::model {
namespace {

constexpr std::chrono::microseconds kLimit{1};

// Ranks. Each waits for its event counter, which other ranks increment.
struct Host {
  std::vector<ring::ControlBlock*> blocks;
  std::vector<std::atomic<int>*> events;

  explicit Host(int ranks) {
    for (int r = 0; r < ranks; ++r) {
      blocks.push_back(new ring::ControlBlock{});
      events.push_back(new std::atomic<int>(0));
    }
    Name(blocks[0]->sleepers, "sleepers");
    for (const auto* block : blocks) {
      Name(block->sleeping, "sleeping");
      Name(block->doorbell, "doorbell");
    }
    for (const auto* event : events) Name(*event, "event");
  }
};

// A new rank. It sleeps once here, which tells it that all ranks execute its barriers.
struct Rank {
  shm::Fabric fabric;
  host::Sleeper sleeper;

  Rank(int rank, const Host& host) : fabric(rank, host.blocks), sleeper(fabric, nullptr) {
    for (auto* block : host.blocks) block->hears_barriers.store(1, std::memory_order_relaxed);
    sleeper.Sleep(kLimit, [] { return true; });
  }
};

// Sleeps until the rank's event has reached `count`.
void SleepUntil(const Host& host, Rank& self, int count) {
  const auto& event = *host.events[static_cast<std::size_t>(self.fabric.rank())];
  const auto came = [&] { return event.load(std::memory_order_acquire) >= count; };
  while (!came()) self.sleeper.Sleep(kLimit, came);
}

std::function<void()> SleeperOf(const Host& host, int rank, int count) {
  auto* const self = new Rank(rank, host);
  return [=] {
    for (int c = 1; c <= count; ++c) SleepUntil(host, *self, c);
  };
}

// Publishes `count` events for each of `ranks`, as an executor's step does: a release, then a check for sleepers.
std::function<void()> PublisherFor(const Host& host, std::vector<int> ranks, int rank, int count = 1) {
  return [=] {
    shm::Fabric fabric(rank, host.blocks);
    for (int c = 1; c <= count; ++c) {
      for (const int r : ranks) host.events[static_cast<std::size_t>(r)]->fetch_add(1, std::memory_order_release);
      host::WakeSleepers(fabric);
    }
  };
}

Result OneSleeps(int count, const Options& options = {}) {
  return Explore(
      [count] {
        const Host host(2);
        return Program{{SleeperOf(host, 0, count), PublisherFor(host, {0}, 1, count)}, nullptr};
      },
      options);
}

Options Without(Primitive primitive) {
  Options options;
  options.drop = {primitive};
  return options;
}

TEST(DoorbellModel, NoWakeUpIsLost) { EXPECT_EQ(OneSleeps(1).failure, ""); }

TEST(DoorbellModelSlow, NoWakeUpOfTwoIsLost) { EXPECT_EQ(OneSleeps(2).failure, ""); }

TEST(DoorbellModel, BarrierAndRingAreNeeded) {
  EXPECT_NE(OneSleeps(1, Without(Primitive::membarrier)).failure.find("nobody wakes"), std::string::npos);
  EXPECT_NE(OneSleeps(1, Without(Primitive::futex_wake)).failure.find("nobody wakes"), std::string::npos);
}

// Two ranks that wait for each other.
TEST(DoorbellModel, RanksWakeEachOther) {
  const auto result = Explore([] {
    const Host host(2);
    const auto rank = [=](int own) {
      auto* const self = new Rank(own, host);
      return [=] {
        host.events[static_cast<std::size_t>(1 - own)]->fetch_add(1, std::memory_order_release);
        host::WakeSleepers(self->fabric);
        SleepUntil(host, *self, 1);
      };
    };
    return Program{{rank(0), rank(1)}, nullptr};
  });
  EXPECT_EQ(result.failure, "");
}

// A rank whose last helper finishes late. The caller checks the count before it sleeps, and that helper wakes it.
Result HelpersAreAwaited(bool last_one_rings) {
  return Explore([=] {
    const Host host(1);
    auto* const at_work = new std::atomic<int>(2);
    const auto helper = [=] {
      shm::Fabric fabric(0, host.blocks);
      if (at_work->fetch_sub(1, std::memory_order_release) == 1 && last_one_rings) host::WakeSleepers(fabric);
    };
    auto* const caller = new Rank(0, host);
    return Program{{[=] {
                      const auto done = [&] { return at_work->load(std::memory_order_acquire) == 0; };
                      while (!done()) caller->sleeper.Sleep(kLimit, done);
                    },
                    helper, helper},
                   nullptr};
  });
}

TEST(DoorbellModel, TheLastHelperRings) {
  EXPECT_EQ(HelpersAreAwaited(true).failure, "");
  EXPECT_NE(HelpersAreAwaited(false).failure.find("nobody wakes"), std::string::npos);
}

}  // namespace
}  // namespace tutti::model
