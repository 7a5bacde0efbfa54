#include "base/report/progress.h"

#include <gtest/gtest.h>

namespace tutti::report {
namespace {

TEST(ProgressLine, TellsStepsAndTimeLeft) {
  EXPECT_EQ(ProgressLine(0, 28, "", "8 bytes", 80), "[1/28] 8 bytes");
  EXPECT_EQ(ProgressLine(2, 28, "12 s", "64K", 80), "[3/28, 12 s left] 64K");
  EXPECT_EQ(ProgressLine(28, 28, "0 s", "64K", 80), "[28/28, 0 s left] 64K");  // the ends
  EXPECT_EQ(ProgressLine(4, 0, "", "tp 8", 80), "[5] tp 8");
  EXPECT_EQ(ProgressLine(0, 1, "", "proving ring", 80), "proving ring");
}

// A longer one would go on in the next line, where it is never cleared.
TEST(ProgressLine, FitsIntoTheTerminal) {
  for (const std::size_t columns : {2, 10, 40, 80}) {
    EXPECT_EQ(ProgressLine(2, 28, "3 min 20 s", std::string(200, 'x'), columns).size(), columns - 1);
  }
}

TEST(FormatDuration, HasTwoUnitsAtMost) {
  EXPECT_EQ(FormatDuration(12.4), "12 s");
  EXPECT_EQ(FormatDuration(200), "3 min 20 s");
  EXPECT_EQ(FormatDuration(3900), "1 h 5 min");
}

}  // namespace
}  // namespace tutti::report
