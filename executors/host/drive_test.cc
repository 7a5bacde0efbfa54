#include "executors/host/drive.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(WaitPolicy, GivesCoresToThoseWhoComputeWhereThereAreFew) {
  const auto alone = ChooseWaitPolicy("", 2, 2), beside = ChooseWaitPolicy("", 2, 2, WhoWaits::stream);
  EXPECT_GT(alone.spin.count(), 0);
  EXPECT_EQ(beside.spin.count(), 0);
  EXPECT_LT(beside.yield, alone.yield);
  // With a core for both nobody is in the way.
  const auto roomy = ChooseWaitPolicy("", 2, 4, WhoWaits::stream);
  EXPECT_EQ(roomy.spin, alone.spin);
  EXPECT_EQ(roomy.yield, alone.yield);
}

TEST(WaitPolicy, IsWhatTheSettingSays) {
  for (const auto who : {WhoWaits::caller, WhoWaits::stream}) {
    EXPECT_GT(ChooseWaitPolicy("spin", 100, 1, who).spin, std::chrono::hours(1));
    EXPECT_EQ(ChooseWaitPolicy("yield", 1, 100, who).spin.count(), 0);
    EXPECT_GT(ChooseWaitPolicy("yield", 1, 100, who).yield, std::chrono::hours(1));
    EXPECT_EQ(ChooseWaitPolicy("sleep", 1, 100, who).yield.count(), 0);
  }
}

}  // namespace
}  // namespace tutti
