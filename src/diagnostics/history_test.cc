#include "src/diagnostics/history.h"

#include <gtest/gtest.h>

#include <memory>

namespace tutti::diagnostics {
namespace {

constexpr std::uint64_t kUsual = 12345, kOdd = 54321;

// Two ranks that see each other.
class HistoryTest : public ::testing::Test {
 protected:
  struct Side {
    explicit Side(History&& made) : history(std::move(made)) {}
    void Call(std::uint64_t signature) {
      digest = ring::NextDigest(digest, signature);
      history.Begin(++sequence, digest);
    }
    History history;
    std::uint64_t sequence = 0, digest = 0;
  };

  std::unique_ptr<ring::ControlBlock> blocks_[2] = {std::make_unique<ring::ControlBlock>(),
                                                    std::make_unique<ring::ControlBlock>()};
  Side one_{History({blocks_[0].get(), blocks_[1].get()}, 0)};
  Side other_{History({blocks_[0].get(), blocks_[1].get()}, 1)};
};

TEST_F(HistoryTest, WhatIsEqualIsProved) {
  EXPECT_FALSE(one_.history.Contradicts(1)) << "nobody has called anything";
  for (int i = 0; i < 1000; ++i) {
    one_.Call(kUsual);
    other_.Call(kUsual);
    EXPECT_FALSE(one_.history.Contradicts(1));
    EXPECT_EQ(one_.history.compared(1), one_.history.newest());
  }
}

TEST_F(HistoryTest, OneOddCallIsSeenHoweverLongAgo) {
  one_.Call(kUsual);
  other_.Call(kOdd);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(one_.history.Contradicts(1));
    one_.Call(kUsual);
    other_.Call(kUsual);
  }
}

// Whichever rank is ahead, they are compared at a call that both have reached.
TEST_F(HistoryTest, RanksThatAreApartAreComparedWhereBothHaveBeen) {
  one_.Call(kUsual);
  for (int i = 0; i < 100; ++i) one_.Call(kUsual);
  other_.Call(kOdd);
  EXPECT_TRUE(one_.history.Contradicts(1));
  EXPECT_FALSE(other_.history.Contradicts(0)) << "not there yet";
  EXPECT_EQ(other_.history.compared(0), 0U);
  for (int i = 0; i < 99; ++i) {
    one_.Call(kUsual);  // stays ahead
    other_.Call(kUsual);
    EXPECT_FALSE(other_.history.Contradicts(0));
  }
  other_.Call(kUsual);
  EXPECT_TRUE(other_.history.Contradicts(0)) << "as far as the other was when it was looked at first";
}

// The peer's mark is no longer kept: the two are not compared until the peer catches up.
TEST_F(HistoryTest, ARankThatIsTooFarBehindIsNotCompared) {
  other_.Call(kOdd);
  for (std::size_t i = 0; i < 2 * History::kKept; ++i) one_.Call(kUsual);
  EXPECT_FALSE(one_.history.Contradicts(1));
  for (std::size_t i = 0; i < 2 * History::kKept - 1; ++i) other_.Call(kUsual);
  EXPECT_TRUE(one_.history.Contradicts(1));
}

TEST_F(HistoryTest, MarksAreInTheirOrder) {
  for (std::size_t i = 0; i < History::kKept + 10; ++i) one_.Call(kUsual);
  const auto marks = one_.history.Marks(64);
  ASSERT_EQ(marks.size(), 64U);
  for (std::size_t i = 0; i < marks.size(); ++i) {
    EXPECT_EQ(ring::MarkedSequence(marks[i]), History::kKept + 10 - 63 + i);
  }
}

// Counts are sent modulo 2^32.
TEST_F(HistoryTest, CountsWrap) {
  for (auto* const side : {&one_, &other_}) side->sequence = 0xfffffff0;
  for (int i = 0; i < 20; ++i) {
    one_.Call(kUsual);
    EXPECT_FALSE(one_.history.Contradicts(1)) << "a rank that has called nothing contradicts nothing: " << i;
  }
  for (int i = 0; i < 20; ++i) other_.Call(kUsual);
  for (int i = 0; i < 40; ++i) {
    one_.Call(kUsual);
    EXPECT_FALSE(one_.history.Contradicts(1)) << i;
    other_.Call(kUsual);
    EXPECT_FALSE(other_.history.Contradicts(0)) << i;
  }
  other_.Call(kOdd);
  one_.Call(kUsual);
  EXPECT_TRUE(one_.history.Contradicts(1));
}

}  // namespace
}  // namespace tutti::diagnostics
