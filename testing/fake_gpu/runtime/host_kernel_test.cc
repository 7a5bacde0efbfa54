#include "testing/fake_gpu/runtime/host_kernel.h"

#include <gtest/gtest.h>

namespace tutti::fake_gpu {
namespace {

// As a compiler mangles them.
constexpr const char* kVerify = "_ZN12_GLOBAL__N_114verifyPreparedIjEEvPKT_S3_ljPl";

TEST(KernelName, IsWithoutNamespaces) {
  const auto name = KernelName::Parse(kVerify);
  EXPECT_EQ(name.function, "verifyPrepared");
  EXPECT_EQ(name.arguments, std::vector<std::string>{"unsigned int"});
  const auto two = KernelName::Parse("_ZN12_GLOBAL__N_113prepareInput2I6__halfNS_9ReduceSumEEEvPT_lT0_iiml");
  EXPECT_EQ(two.function, "prepareInput2");
  EXPECT_EQ(two.arguments, (std::vector<std::string>{"__half", "ReduceSum"}));
}

TEST(KernelName, OfAFunctionThatIsNoTemplate) {
  const auto name = KernelName::Parse("plain");
  EXPECT_EQ(name.function, "plain");
  EXPECT_TRUE(name.arguments.empty());
}

TEST(HostKernels, AreFoundByName) {
  EXPECT_TRUE(FindHostKernel({"verifyPrepared", {"unsigned long"}}));
  EXPECT_TRUE(FindHostKernel({"prepareInput2", {"__nv_fp8_e4m3", "ReduceAvg"}}));
  EXPECT_TRUE(FindHostKernel({"prepareExpected2", {"double", "ReduceNil"}}));
  EXPECT_FALSE(FindHostKernel({"prepareInput2", {"double", "ReduceNothing"}}));
  EXPECT_FALSE(FindHostKernel({"prepareInput2", {"double"}}));
  EXPECT_FALSE(FindHostKernel({"verifyPrepared", {"float"}}));
  EXPECT_FALSE(FindHostKernel({"other", {}}));
}

}  // namespace
}  // namespace tutti::fake_gpu
