#include "bench/report/plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tutti::bench {
namespace {

// Enough XML parsing to detect an unclosed tag, a stray bracket or an unescaped ampersand.
::testing::AssertionResult IsWellFormed(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t i = 0; i < xml.size(); ++i) {
    if (xml[i] == '>') return ::testing::AssertionFailure() << "stray > at " << i;
    if (xml[i] == '&' && xml.find(';', i) > i + 6) return ::testing::AssertionFailure() << "bare & at " << i;
    if (xml[i] != '<') continue;
    const std::size_t end = xml.find('>', i);
    if (end == std::string::npos) return ::testing::AssertionFailure() << "unclosed tag at " << i;
    const std::string tag = xml.substr(i + 1, end - i - 1);
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return ::testing::AssertionFailure() << "quotes in " << tag;
    if (tag.front() == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return ::testing::AssertionFailure() << "unexpected " << tag;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
    i = end;
  }
  if (!open.empty()) return ::testing::AssertionFailure() << open.back() << " is never closed";
  return ::testing::AssertionSuccess();
}

Record At(std::size_t size, double tutti_us, double peer_us) {
  Record record;
  record.operation = {Collective::all_reduce, tuttiFloat32, tuttiSum, 0, size / 4, false};
  record.size = record.bytes = size;
  record.ranks = 4;
  for (const auto& [name, us] : {std::pair("tutti", tutti_us), std::pair("open<mpi>&co", peer_us)}) {
    Result result;
    result.library = name;
    result.measured = us > 0;
    result.median_us = us;
    record.results.push_back(result);
  }
  return record;
}

TEST(PlotSweep, IsWellFormedWithOneLinePerLibraryAndPanel) {
  std::vector<Record> records;
  for (std::size_t size = 8; size <= 128u << 20; size *= 2)
    records.push_back(At(size, 0.3 + size * 1e-4, 1 + size * 3e-4));
  const std::string svg = PlotSweep(records);
  EXPECT_TRUE(IsWellFormed(svg));
  std::size_t lines = 0;
  for (std::size_t at = svg.find("<polyline"); at != std::string::npos; at = svg.find("<polyline", at + 1)) ++lines;
  EXPECT_EQ(lines, 4u);
  EXPECT_NE(svg.find("open&lt;mpi&gt;&amp;co"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

TEST(PlotSweep, DrawsWhateverLittleThereIs) {
  for (const auto& records : {std::vector<Record>{}, {At(8, 1, 2)}, {At(8, 0, 2)}, {At(8, 0, 0)}, {At(0, 1, 1)}}) {
    const std::string svg = PlotSweep(records);
    EXPECT_TRUE(IsWellFormed(svg));
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("inf"), std::string::npos);
  }
}

}  // namespace
}  // namespace tutti::bench
