#include "transports/ring/ring.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <thread>
#include <vector>

#include "testing/surroundings.h"

namespace tutti::ring {
namespace {

// One filler and any number of emptiers over memory of their own.
class RingTest : public ::testing::Test {
 protected:
  static constexpr SlotShape kShape = kLineShape;
  static constexpr std::uint32_t kTag = 7;

  FillEnd Filler(int emptiers) {
    heads_ = std::vector<std::atomic<std::uint32_t>>(static_cast<std::size_t>(emptiers));
    std::vector<const std::atomic<std::uint32_t>*> pointers;
    for (const auto& head : heads_) pointers.push_back(&head);
    return {slots(), kShape, std::move(pointers)};
  }
  EmptyEnd Emptier(int index) { return {slots(), kShape, 1, &heads_[static_cast<std::size_t>(index)]}; }
  std::byte* slots() { return memory_.data(); }
  std::atomic<std::uint32_t>& Head(int index) { return heads_[static_cast<std::size_t>(index)]; }

  static void Put(FillEnd& fill, std::uint64_t value, std::uint32_t tag) {
    std::memcpy(fill.Data(), &value, sizeof value);
    fill.Publish(tag);
  }
  static std::uint64_t Take(EmptyEnd& empty) {
    std::uint64_t value;
    std::memcpy(&value, empty.Data(), sizeof value);
    empty.Release();
    return value;
  }

 private:
  alignas(64) std::array<std::byte, std::size_t{kShape.stride} * kShape.depth> memory_{};
  std::vector<std::atomic<std::uint32_t>> heads_;
};

TEST_F(RingTest, FillsUpAndDrains) {
  auto fill = Filler(2);
  auto first = Emptier(0), second = Emptier(1);
  for (std::uint32_t i = 0; i < kShape.depth; ++i) {
    ASSERT_TRUE(fill.HasRoom());
    Put(fill, i, kTag);
  }
  EXPECT_FALSE(fill.HasRoom());
  EXPECT_EQ(Take(first), 0U);
  EXPECT_FALSE(fill.HasRoom()) << "the slower emptier has not read the slot yet";
  EXPECT_EQ(Take(second), 0U);
  EXPECT_TRUE(fill.HasRoom());
  for (std::uint32_t i = 1; i < kShape.depth; ++i) {
    EXPECT_FALSE(fill.Drained());
    Take(first);
    Take(second);
  }
  EXPECT_TRUE(fill.Drained());
}

TEST_F(RingTest, TellsWaitingReadyAndForeign) {
  auto fill = Filler(1);
  auto empty = Emptier(0);
  EXPECT_EQ(empty.Look(kTag), EmptyEnd::State::waiting);
  Put(fill, 1, kTag + 1);
  EXPECT_EQ(empty.Look(kTag), EmptyEnd::State::foreign);
  EXPECT_EQ(empty.Look(kTag + 1), EmptyEnd::State::ready);
}

// An emptier's count lies in the emptier's memory. A count that makes no sense must not let the filler overwrite what
// another emptier has not read, nor make the ring look drained.
TEST_F(RingTest, ACountThatMakesNoSenseIsNoRoom) {
  auto fill = Filler(2);
  for (std::uint32_t i = 0; i < kShape.depth; ++i) {
    ASSERT_TRUE(fill.HasRoom());
    Put(fill, i, kTag);
  }
  for (const std::uint32_t garbage : {kShape.depth + 1, kShape.depth + 2, 2 * kShape.depth + 1, 1U << 31, ~0U}) {
    Head(1).store(garbage);
    EXPECT_FALSE(fill.HasRoom()) << garbage;
    EXPECT_FALSE(fill.Drained()) << garbage;
  }
}

// A slot's content from the previous round must never pass for the next message, whatever the tag.
TEST_F(RingTest, StaleSlotsAreNotReady) {
  auto fill = Filler(1);
  auto empty = Emptier(0);
  for (std::uint32_t i = 0; i < 3 * kShape.depth; ++i) {
    EXPECT_EQ(empty.Look(kTag), EmptyEnd::State::waiting);
    Put(fill, i, kTag);
    EXPECT_EQ(empty.Look(kTag), EmptyEnd::State::ready);
    EXPECT_EQ(Take(empty), i);
  }
}

// The memory ordering, for a thread sanitizer and for weakly ordered processors.
TEST_F(RingTest, CarriesEveryMessageBetweenThreads) {
  const auto messages = static_cast<std::uint64_t>(testing::Rounds(200'000));
  constexpr int kEmptiers = 3;
  auto fill = Filler(kEmptiers);
  std::vector<std::thread> threads;
  std::array<std::uint64_t, kEmptiers> wrong{};
  for (int e = 0; e < kEmptiers; ++e) {
    threads.emplace_back([this, e, messages, &wrong, empty = Emptier(e)]() mutable {
      for (std::uint64_t i = 0; i < messages; ++i) {
        while (empty.Look(kTag) != EmptyEnd::State::ready) std::this_thread::yield();
        wrong[static_cast<std::size_t>(e)] += Take(empty) != Mix(i);
      }
    });
  }
  for (std::uint64_t i = 0; i < messages; ++i) {
    while (!fill.HasRoom()) std::this_thread::yield();
    Put(fill, Mix(i), kTag);
  }
  for (auto& thread : threads) thread.join();
  for (const auto count : wrong) EXPECT_EQ(count, 0U);
}

TEST(Slot, FlagsDifferByNumberAndTag) {
  EXPECT_NE(SlotFlag(1, 2), SlotFlag(2, 2));
  EXPECT_NE(SlotFlag(1, 2), SlotFlag(1, 3));
  EXPECT_EQ(FlagNumber(SlotFlag(0xffffffffU, 0xabcdU)), 0xffffffffU);
  EXPECT_EQ(FreeSlots(3, 0xffffffffU, 8), 4U) << "counts wrap";
}

TEST(Slot, DataChangePlacesWithinTheSpan) {
  constexpr std::uint32_t kDepth = 4;
  constexpr std::size_t kSpan = 512 << 10;
  for (const std::size_t bytes : {1UL, 64UL, 2048UL, 4097UL, 100'000UL}) {
    std::set<std::size_t> places;
    std::size_t last = 0;
    for (std::uint32_t round = 0; round < 1000; ++round) {
      const auto place = PlaceInSlot(round * kDepth + 3, kDepth, bytes, kSpan);
      EXPECT_EQ(place, PlaceInSlot(round * kDepth, kDepth, bytes, kSpan)) << "slots of one round have one place";
      EXPECT_EQ(place % kCacheLine, 0U);
      EXPECT_LE(place + bytes, kSpan);
      EXPECT_TRUE(place == 0 || place >= last + bytes + kGap);
      last = place;
      places.insert(place);
    }
    EXPECT_GE(places.size(), std::min<std::size_t>(1000, kSpan / (bytes + 2 * kGap))) << bytes;
  }
  EXPECT_EQ(PlaceInSlot(40, kDepth, kSpan / 2, kSpan), 0U) << "there is one place only";
  EXPECT_EQ(PlaceInSlot(40, kDepth, 4096, 0), 0U) << "none changes its place";
  // Where the numbers wrap, both ends still find the same place, within the span.
  EXPECT_LE(PlaceInSlot(0xffffffffU, kDepth, 4096, kSpan) + 4096, kSpan);
}

TEST(Slot, TagsOfNeighbouringOperationsDiffer) {
  std::uint64_t digest = 0;
  for (int operation = 0; operation < 10'000; ++operation) {
    const auto next = NextDigest(digest, 42);
    EXPECT_NE(OperationTag(digest), OperationTag(next));
    EXPECT_NE(OperationTag(NextDigest(digest, 43)), OperationTag(next));
    digest = next;
  }
}

}  // namespace
}  // namespace tutti::ring
