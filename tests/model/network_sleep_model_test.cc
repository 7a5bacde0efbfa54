// Sleeping between hosts: executors/host/doorbell.cc with transports/progress/network.cc itself. Several threads of a
// rank sleep at once, and any of them may receive what the others wait for.
#include <gtest/gtest.h>
#include <unistd.h>

#include "executors/host/doorbell.h"
#include "tests/model/checker.h"
#include "transports/progress/network.h"

namespace tutti::model {
namespace {

constexpr int kPeer = 1;
constexpr std::chrono::microseconds kLimit{1};

// A peer's sent slots, slot i to connection i, and a descriptor that polls readable while some are not received.
struct Line {
  int readable = NewBell();
  std::atomic<std::uint32_t>* sent = new std::atomic<std::uint32_t>(0);

  void Send() const {
    sent->fetch_add(1, std::memory_order_release);
    RingFromOutside(readable);
  }
};

class LineTransport final : public progress::NetworkTransport {
 public:
  LineTransport(progress::NetworkTransportEvents& events, const Line& line) : events_(events), line_(line) {}

  void Connect(int) override {}
  int Room(int) const override { return 1; }
  void Send(int, const progress::SlotMessage&, const std::byte*) override {}
  void SendControl(int, std::span<const std::byte>) override {}
  void Flush(int) override {}
  bool Advance() override {
    std::uint64_t rings;
    if (read(line_.readable, &rings, sizeof rings) != sizeof rings) return false;
    const auto before = taken_;
    for (const auto sent = line_.sent->load(std::memory_order_acquire); taken_ < sent; ++taken_) {
      events_.Landed(kPeer, progress::SlotMessage{taken_, 1, 0, 0});
    }
    return taken_ != before;
  }
  void LookForSilence() override {}
  int descriptor() const override { return line_.readable; }
  Deadline::Milliseconds LongestWait() const override { return std::chrono::hours(1); }
  void Abandon(int) override {}
  void Close() override {}
  bool Reaches(int) const override { return true; }
  bool Delivered(int) const override { return true; }

 private:
  progress::NetworkTransportEvents& events_;
  const Line& line_;
  std::uint32_t taken_ = 0;
};

// A rank of this host whose threads wait for two events. Each event comes once: from rank 1, on another host, or from
// other ranks of this host.
struct Rank {
  std::array<std::atomic<int>, 2> events{};
  Line line;
  ring::ControlBlock block{};
  ring::ControlBlock shadow{};
  shm::Fabric fabric;
  progress::NetworkEngine engine;
  host::Sleeper sleeper;

  Rank()
      : fabric(0, {&block, &shadow}, {NewBell()}),
        engine(
            fabric, {kPeer},
            [this](progress::NetworkTransportEvents& events) { return std::make_unique<LineTransport>(events, line); },
            [this](int) {
              return std::vector<progress::ConnectionRings>{{&events[0]}, {&events[1]}};
            }),
        sleeper(fabric, &engine) {
    shadow.hears_barriers.store(1, std::memory_order_relaxed);
    // The rank sleeps once here, which tells it that all ranks execute its barriers. It has two bells, as if two
    // threads had slept at once.
    sleeper.Sleep(kLimit, [] { return true; });
    const int first = engine.TakeBell(), second = engine.TakeBell();
    engine.ReturnBell(first);
    engine.ReturnBell(second);
    Name(block.sleepers, "sleepers");
    Name(block.sleeping, "sleeping");
    Name(events[0], "event 0");
    Name(events[1], "event 1");
  }
};

// A thread that waits for one event.
std::function<void()> WaiterFor(Rank& rank, std::size_t event) {
  return [&rank, event] {
    const auto came = [&] { return rank.events[event].load(std::memory_order_acquire) != 0; };
    while (!came()) rank.sleeper.Sleep(kLimit, came);
  };
}

// Another thread of the rank drives the network, receives what the sleeper waits for, and does other things.
Result AnotherTakesTheSlotIn(const Options& options = {}) {
  return Explore(
      [] {
        auto* const rank = new Rank;
        return Program{{WaiterFor(*rank, 0), [=] { rank->engine.Progress(); }, [=] { rank->line.Send(); }}, nullptr};
      },
      options);
}

// Another rank of this host publishes the event that a thread waits for.
Result ALocalRankPublishes(const Options& options = {}) {
  return Explore(
      [] {
        auto* const rank = new Rank;
        return Program{{WaiterFor(*rank, 0),
                        [=] {
                          rank->events[0].fetch_add(1, std::memory_order_release);
                          host::WakeSleepers(rank->fabric);
                        }},
                       nullptr};
      },
      options);
}

// The same for several threads and one ring of their rank's only bell. (The model before shows that the publisher rings
// it if any thread sleeps, so here it always rings.)
Result OneRingIsFor(int threads, const Options& options = {}) {
  return Explore(
      [threads] {
        auto* const rank = new Rank;
        Program program;
        for (int t = 0; t < threads; ++t) {
          program.threads.emplace_back([=] {
            const int bell = rank->engine.TakeBell();
            if (rank->events[0].load(std::memory_order_acquire) == 0) rank->engine.Sleep(bell, kLimit);
            rank->engine.ReturnBell(bell);
          });
        }
        program.threads.emplace_back([=] {
          rank->events[0].fetch_add(1, std::memory_order_release);
          RingFromOutside(rank->fabric.bell(0));
        });
        return program;
      },
      options);
}

Options Without(Primitive primitive) {
  Options options;
  options.drop = {primitive};
  return options;
}

TEST(NetworkSleepModel, AThreadIsToldOfASlotThatAnotherTookIn) {
  EXPECT_EQ(AnotherTakesTheSlotIn().failure, "");
  EXPECT_NE(AnotherTakesTheSlotIn(Without(Primitive::bell)).failure.find("nobody wakes"), std::string::npos);
}

TEST(NetworkSleepModel, ALocalRankWakesASleeper) {
  EXPECT_EQ(ALocalRankPublishes().failure, "");
  EXPECT_NE(ALocalRankPublishes(Without(Primitive::bell)).failure.find("nobody wakes"), std::string::npos);
  EXPECT_NE(ALocalRankPublishes(Without(Primitive::membarrier)).failure.find("nobody wakes"), std::string::npos);
}

TEST(NetworkSleepModel, ARanksBellReachesAllItsThreads) {
  EXPECT_EQ(OneRingIsFor(2).failure, "");
  EXPECT_NE(OneRingIsFor(2, Without(Primitive::bell)).failure.find("nobody wakes"), std::string::npos);
}

TEST(NetworkSleepModelSlow, ARanksBellReachesThreeThreads) { EXPECT_EQ(OneRingIsFor(3).failure, ""); }

}  // namespace
}  // namespace tutti::model
