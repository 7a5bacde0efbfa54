// For tests of the kernels: runs them for each instruction set that is compiled in and that this processor has.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "executors/host/kernels/simd_target.h"
#include "executors/host/kernels/simd_targets.h"
// After simd_targets.h, which selects the targets.
#include <hwy/highway.h>

namespace tutti::host_kernels {

// From now on the kernels are those of `targets`, a set of Highway's bits. 0: what the processor has.
inline void ForceTargets(std::int64_t targets) {
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// Those that this processor has, the best first. Ends a ForceTargets().
inline std::vector<std::int64_t> Targets() {
  ForceTargets(0);
  return hwy::SupportedAndGeneratedTargets();
}

// One line, for the logs: which targets the tests run, and which they cannot run here. scripts/test.sh repeats it.
inline void PrintTargets() {
  std::string run, left_out;
  std::int64_t here = 0;
  for (const auto target : Targets()) {
    run += fmt::format(" {}", hwy::TargetName(target));
    here |= target;
  }
  for (std::int64_t rest = HWY_TARGETS & ~here; rest != 0; rest &= rest - 1) {
    left_out += fmt::format(" {}", hwy::TargetName(rest & -rest));
  }
  fmt::print("SIMD targets tested:{}; the default is {}; compiled, but not in this processor:{}\n", run, SimdTarget(),
             left_out.empty() ? " none" : left_out);
}

class OnEachTarget : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { PrintTargets(); }
  void TearDown() override { ForceTargets(0); }
};

}  // namespace tutti::host_kernels
