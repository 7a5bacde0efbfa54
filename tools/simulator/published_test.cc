#include "tools/simulator/published.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"

namespace tutti::tools {
namespace {

constexpr const char* kPublished = "selection/simulator/testdata/published.csv";
constexpr const char* kSystems = "selection/simulator/testdata/systems.csv";

// The constants are calibrated once per type of machine; together they must meet these limits.
TEST(Published, AreReachedWithinTheLimits) {
  constexpr int kMostRanks = 16;
  const auto comparisons = ComparePublished(kPublished, kSystems, kMostRanks);
  EXPECT_GE(comparisons.size(), 100u);
  EXPECT_LE(MedianError(comparisons), 0.15);
  EXPECT_LE(MedianError(Only(comparisons, [](const Comparison& c) { return !c.fitted; })), 0.15);
  const auto nvls = Only(comparisons, IsNvls);
  EXPECT_GE(nvls.size(), 12u);
  EXPECT_LE(MedianError(nvls), 0.15);
  for (const Comparison& comparison : comparisons) EXPECT_FALSE(comparison.source.empty());
  // No constant was fitted to a row of in-switch reduction.
  EXPECT_TRUE(Only(nvls, [](const Comparison& c) { return c.fitted; }).empty());
}

std::string WhyRefused(const std::string& rows, const std::string& systems) {
  try {
    ComparePublished(rows, systems);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Published, MalformedFilesAreRefusedWithFileAndLine) {
  constexpr auto kColumns = "system,ranks,nodes,collective,algorithm,chosen,library,bytes,time_us,fitted,source\n";
  const auto refused = [&](const std::string& row) {
    const auto path = std::filesystem::path(::testing::TempDir()) / "published.csv";
    std::ofstream(path) << kColumns << row;
    const std::string why = WhyRefused(path, kSystems);
    const std::size_t line = why.find(":2:");
    return line == std::string::npos ? why : "FILE" + why.substr(line);
  };
  EXPECT_EQ(refused("DGX H100,8,1\n"), "FILE:2: 3 fields, but 11 are expected");
  EXPECT_EQ(refused("DGX H100,eight,1,all_reduce,ring,default,L,8,9.5,no,S\n"), "FILE:2: \"eight\" is not a number");
  EXPECT_EQ(refused("DGX H1000,8,1,all_reduce,ring,default,L,8,9.5,no,S\n"),
            "FILE:2: selection/simulator/testdata/systems.csv does not describe the system \"DGX H1000\"");
  EXPECT_EQ(refused("DGX H100,8,1,all_reduce,rings,default,L,8,9.5,no,S\n"), "FILE:2: algorithm \"rings\" is unknown");
  EXPECT_EQ(WhyRefused("/none.csv", kSystems), "cannot read /none.csv, or it is empty");
  EXPECT_EQ(WhyRefused(kPublished, "/none.csv"), "cannot read /none.csv, or it is empty");
}

}  // namespace
}  // namespace tutti::tools
