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

struct Typed {
  std::string_view name;
  std::string_view meant;
};

// Users trust a suggestion, so a wrong name is worse than none.
TEST(NearestName, IsTheOneMeantOrNone) {
  constexpr auto names = std::to_array<std::string_view>(
      {"IB_TIMEOUT", "TIMEOUT_MS", "INIT_TIMEOUT_MS", "SOCKET_FAMILY", "SECRET", "HOLD", "IB_SL", "TOPO_FILE", "DEBUG",
       "PROTO", "NET", "GPU", "GPU_P2P", "CHANNELS", "MAX_CHANNELS", "SOCKETS", "SOCKET_SPEED"});
  constexpr auto typed = std::to_array<Typed>({{"TIMEOUT", "TIMEOUT_MS"},
                                               {"INIT_TIMEOUT", "INIT_TIMEOUT_MS"},
                                               {"OP_TIMEOUT", ""},
                                               {"NET_TIMEOUT", ""},
                                               {"IB_TIMOUT", "IB_TIMEOUT"},
                                               {"SECRET_FILE", "SECRET"},
                                               {"DEBUG_FILE", "DEBUG"},
                                               {"HOST", ""},
                                               {"IB_DISABLE", ""},
                                               {"PORT", ""},
                                               {"PROT", "PROTO"},
                                               {"GPU_2P", "GPU_P2P"},
                                               {"CHANNEL", "CHANNELS"},
                                               {"MAX_CHANELS", "MAX_CHANNELS"},
                                               {"SOCKET", "SOCKETS"}});
  for (const auto& each : typed) EXPECT_EQ(NearestName(each.name, names), each.meant) << each.name;
}

TEST(NearestName, OfCommandsAndOptions) {
  constexpr auto commands = std::to_array<std::string_view>({"run", "explain", "topo", "simulate", "calibrate"});
  EXPECT_EQ(NearestName("tune", commands), "");
  EXPECT_EQ(NearestName("calib", commands), "calibrate");
  constexpr auto options = std::to_array<std::string_view>({"-h", "--help", "-n", "--ranks", "--cell-ms"});
  for (const std::string_view typed : {"-r", "-N", "-np", "--", "-"})
    EXPECT_EQ(NearestName(typed, options), "") << typed;
  EXPECT_EQ(NearestName("-ranks", options), "--ranks");
  EXPECT_EQ(NearestName("--rank", options), "--ranks");
  EXPECT_EQ(NearestName("--cell", options), "--cell-ms");
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
