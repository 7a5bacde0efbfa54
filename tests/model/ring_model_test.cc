// The rings of slots, in transports/ring/ring.h itself, with one and two slots. Everything that a ring carries arrives
// once and in order. No slot, and no memory that a slot refers to, is overwritten before it was read.
#include <gtest/gtest.h>

#include "tests/model/checker.h"
#include "transports/ring/ring.h"

namespace tutti::model {
namespace {

constexpr std::uint32_t kTag = 7;

// A ring in memory that its ends share. Each message is the slot's `bytes` and a word after the header.
struct Ring {
  std::byte* slots;
  ring::SlotShape shape;
  std::vector<std::atomic<std::uint32_t>*> heads;
  std::uint32_t* buffer = new std::uint32_t(0);  // memory that slots may refer to

  Ring(std::uint32_t depth, std::size_t readers)
      : slots(new std::byte[ring::kCacheLine * depth]), shape{ring::kCacheLine, depth, sizeof(ring::SlotHeader), 8} {
    for (std::size_t i = 0; i < readers; ++i) heads.push_back(new std::atomic<std::uint32_t>(0));
  }
  std::size_t bytes() const { return std::size_t{shape.stride} * shape.depth; }
  ring::FillEnd Fill() const { return {slots, shape, {heads.begin(), heads.end()}}; }
  ring::EmptyEnd Empty(std::size_t reader) const { return {slots, shape, 0, heads[reader]}; }
};

std::uint32_t& WordOf(std::byte* data) { return *reinterpret_cast<std::uint32_t*>(data); }
const std::uint32_t& WordOf(const std::byte* data) { return *reinterpret_cast<const std::uint32_t*>(data); }

void Send(ring::FillEnd& fill, std::uint32_t message) {
  Await([&] { return fill.HasRoom(); });
  fill.Header().bytes = message;
  fill.Header().kind = ring::SlotKind::value;
  WordOf(fill.Data()) = message * 3;
  fill.Publish(kTag);
}

void Receive(ring::EmptyEnd& empty, std::uint32_t message) {
  Await([&] { return empty.Look(kTag) == ring::EmptyEnd::State::ready; });
  Require(empty.Content().bytes == message && WordOf(empty.Data()) == message * 3, "messages come once and in order");
  empty.Release();
}

using Mutate = std::function<void(const Ring&)>;

void Nothing(const Ring&) {}
void FlagStores(const Ring& ring) { Weaken(ring.slots, ring.bytes(), Operation::store, std::memory_order_relaxed); }
void FlagLoads(const Ring& ring) { Weaken(ring.slots, ring.bytes(), Operation::load, std::memory_order_relaxed); }
void HeadStores(const Ring& ring) { Weaken(*ring.heads.back(), Operation::store); }
void HeadLoads(const Ring& ring) { Weaken(*ring.heads.back(), Operation::load); }

Result Passing(std::uint32_t depth, std::size_t readers, std::uint32_t messages, const Mutate& mutate = Nothing) {
  return Explore([&, depth, readers, messages] {
    const Ring ring(depth, readers);
    Name(ring.slots, ring.bytes(), "slots");
    for (const auto* head : ring.heads) Name(*head, "head");
    mutate(ring);
    Program program;
    program.threads.emplace_back([=] {
      auto fill = ring.Fill();
      for (std::uint32_t m = 1; m <= messages; ++m) Send(fill, m);
    });
    for (std::size_t reader = 0; reader < readers; ++reader) {
      program.threads.emplace_back([=] {
        auto empty = ring.Empty(reader);
        for (std::uint32_t m = 1; m <= messages; ++m) Receive(empty, m);
      });
    }
    return program;
  });
}

void ExpectEachOrderIsNeeded(std::uint32_t depth, std::size_t readers, std::uint32_t messages) {
  for (const auto& mutate : {FlagStores, FlagLoads, HeadStores, HeadLoads}) {
    EXPECT_NE(Passing(depth, readers, messages, mutate).failure.find("races with"), std::string::npos);
  }
}

TEST(RingModel, OneSlotPassesMessages) {
  EXPECT_EQ(Passing(1, 1, 6).failure, "");
  ExpectEachOrderIsNeeded(1, 1, 2);
}

TEST(RingModel, FillerRunsAheadByDepth) {
  EXPECT_EQ(Passing(2, 1, 7).failure, "");
  ExpectEachOrderIsNeeded(2, 1, 3);
}

TEST(RingModel, ManyReadersPassMessages) {
  EXPECT_EQ(Passing(1, 2, 3).failure, "");
  EXPECT_EQ(Passing(2, 2, 3).failure, "");
  EXPECT_EQ(Passing(1, 3, 3).failure, "");
  ExpectEachOrderIsNeeded(1, 2, 2);
  ExpectEachOrderIsNeeded(2, 2, 3);
}

// A filler that does not check for room overwrites a slot that is being read.
TEST(RingModel, FillerMustAwaitRoom) {
  const auto result = Explore([] {
    const Ring ring(1, 1);
    return Program{{[=] {
                      auto fill = ring.Fill();
                      for (std::uint32_t m = 1; m <= 2; ++m) {
                        fill.Header().bytes = m;
                        WordOf(fill.Data()) = m * 3;
                        fill.Publish(kTag);
                      }
                    },
                    [=] {
                      auto empty = ring.Empty(0);
                      Receive(empty, 1);
                    }},
                   nullptr};
  });
  EXPECT_NE(result.failure, "");
}

// Ranks in different operations: the reader detects the mismatch, whatever it sees of the slot's history.
TEST(RingModel, AnotherOperationsSlotIsForeign) {
  const auto result = Explore([] {
    const Ring ring(1, 1);
    return Program{{[=] {
                      auto fill = ring.Fill();
                      Send(fill, 1);
                      Await([&] { return fill.HasRoom(); });
                      fill.Publish(kTag + 1);
                    },
                    [=] {
                      auto empty = ring.Empty(0);
                      Receive(empty, 1);
                      auto look = ring::EmptyEnd::State::waiting;
                      Await([&] { return (look = empty.Look(kTag)) != ring::EmptyEnd::State::waiting; });
                      Require(look == ring::EmptyEnd::State::foreign, "a slot of another operation is foreign");
                    }},
                   nullptr};
  });
  EXPECT_EQ(result.failure, "");
}

// A slot that refers to memory. When all readers are done, the call ends and the caller may write there.
Result Referring(std::size_t readers, bool drains, const Mutate& mutate = Nothing) {
  return Explore([&, readers, drains] {
    const Ring ring(2, readers);
    mutate(ring);
    Program program;
    program.threads.emplace_back([=] {
      auto fill = ring.Fill();
      for (std::uint32_t call = 1; call <= 2; ++call) {
        *ring.buffer = call;
        Await([&] { return fill.HasRoom(); });
        fill.Header().kind = ring::SlotKind::pointer;
        fill.Header().address = reinterpret_cast<std::uint64_t>(ring.buffer);
        fill.Publish(kTag);
        if (drains) Await([&] { return fill.Drained(); });
      }
    });
    for (std::size_t reader = 0; reader < readers; ++reader) {
      program.threads.emplace_back([=] {
        auto empty = ring.Empty(reader);
        for (std::uint32_t call = 1; call <= 2; ++call) {
          Await([&] { return empty.Look(kTag) == ring::EmptyEnd::State::ready; });
          const auto* const there = reinterpret_cast<const std::uint32_t*>(empty.Reference().address);
          Require(*there == call, "who is referred to the buffer finds this call's data");
          empty.Release();
        }
      });
    }
    return program;
  });
}

TEST(RingModel, CallsEndWhenNobodyReadsTheirBuffers) {
  EXPECT_EQ(Referring(1, true).failure, "");
  EXPECT_EQ(Referring(2, true).failure, "");
  EXPECT_NE(Referring(1, false).failure, "");
  for (const auto& mutate : {FlagStores, FlagLoads, HeadStores, HeadLoads}) {
    EXPECT_NE(Referring(2, true, mutate).failure.find("races with"), std::string::npos);
  }
}

// A block that was streamed into the output and is then forwarded by reference.
Result Streaming(const Options& options = {}) {
  return Explore(
      [] {
        const Ring ring(1, 1);
        return Program{{[=] {
                          auto fill = ring.Fill();
                          StreamStore(ring.buffer, 5);
                          StreamFence();
                          fill.Header().kind = ring::SlotKind::pointer;
                          fill.Header().address = reinterpret_cast<std::uint64_t>(ring.buffer);
                          fill.Publish(kTag);
                        },
                        [=] {
                          auto empty = ring.Empty(0);
                          Await([&] { return empty.Look(kTag) == ring::EmptyEnd::State::ready; });
                          Require(*reinterpret_cast<const std::uint32_t*>(empty.Reference().address) == 5,
                                  "it is there");
                          empty.Release();
                        }},
                       nullptr};
      },
      options);
}

TEST(RingModel, StreamedBlocksNeedAFenceBeforeTheyAreReferredTo) {
  EXPECT_EQ(Streaming().failure, "");
  Options options;
  options.drop = {Primitive::stream_fence};
  EXPECT_NE(Streaming(options).failure.find("streamed"), std::string::npos);
}

// A connection to another host: a bit tells the network engine that there are slots to take
// (transports/progress/network_peer.cc). The engine reads the word, relaxed, and clears it by an exchange; slots filled
// after that set the bit again.
Result ByNetwork(const std::function<void(std::atomic<std::uint64_t>&)>& mutate) {
  return Explore([&] {
    const Ring ring(2, 1);
    auto* const pending = new std::atomic<std::uint64_t>(0);
    mutate(*pending);
    return Program{{[=] {
                      auto fill = ring.Fill();
                      fill.Notify(pending, 1);
                      for (std::uint32_t m = 1; m <= 3; ++m) {
                        Send(fill, m);
                      }
                      Await([&] { return fill.Drained(); });
                    },
                    [=] {
                      auto empty = ring.Empty(0);
                      for (std::uint32_t next = 1; next <= 3;) {
                        Await([&] { return pending->load(std::memory_order_relaxed) != 0; });
                        pending->exchange(0, std::memory_order_acquire);
                        while (next <= 3 && empty.Look(kTag) == ring::EmptyEnd::State::ready) Receive(empty, next++);
                      }
                    }},
                   nullptr};
  });
}

TEST(RingModel, NetworkMissesNoFilledSlot) {
  EXPECT_EQ(ByNetwork([](auto&) {}).failure, "");
  const auto taken = ByNetwork([](auto& pending) { Weaken(pending, Operation::rmw); });
  EXPECT_NE(taken.failure.find("nobody wakes"), std::string::npos) << taken.failure;
}

}  // namespace
}  // namespace tutti::model
