#include "base/settings/nearest_name.h"

#include <gtest/gtest.h>

#include <array>

namespace tutti {
namespace {

constexpr std::array<std::string_view, 2> kNames = {"ring", "direct"};

TEST(NearestName, CountsLetters) {
  EXPECT_EQ(NearestName("rign", kNames), "ring");
  EXPECT_EQ(NearestName("rxyz", kNames), "");  // three of four letters
  EXPECT_EQ(NearestName("rin", kNames), "ring");
  EXPECT_EQ(NearestName("direkt", kNames), "direct");
  EXPECT_EQ(NearestName("", kNames), "");
}

TEST(NearestName, TakesSwappedNeighboursForOneMistake) {
  constexpr std::array<std::string_view, 2> names = {"run", "show"};
  EXPECT_EQ(NearestName("rnu", names), "run");
  EXPECT_EQ(NearestName("urn", names), "run");
  EXPECT_EQ(NearestName("nur", names), "");  // two letters are others
}

TEST(NearestName, IsPartOfASentence) {
  EXPECT_EQ(DidYouMean("rign", kNames), "; did you mean ring?");
  EXPECT_EQ(DidYouMean("xyz", kNames), "");
  EXPECT_EQ(UnknownName("algorithm", "rign", kNames),
            "algorithm \"rign\" is unknown; did you mean ring? Known are ring, direct");
  EXPECT_EQ(UnknownName("algorithm", "x\x1b", kNames), "algorithm \"x\\x1b\" is unknown; known are ring, direct");
}

}  // namespace
}  // namespace tutti
