#include "executors/host/kernels/simd_target.h"

#include <gtest/gtest.h>

#include "executors/host/kernels/simd_testing.h"

namespace tutti::host_kernels {
namespace {

using SimdTargetTest = OnEachTarget;

TEST_F(SimdTargetTest, IsTheBestOneAndFollowsTheTests) {
  const auto targets = Targets();
  ASSERT_FALSE(targets.empty());
  EXPECT_EQ(SimdTarget(), hwy::TargetName(targets.front()));
  for (const auto target : targets) {
    ForceTargets(target);
    EXPECT_EQ(SimdTarget(), hwy::TargetName(target));
  }
  ForceTargets(0);
  EXPECT_EQ(SimdTarget(), hwy::TargetName(targets.front()));
}

}  // namespace
}  // namespace tutti::host_kernels
