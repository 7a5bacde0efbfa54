#include "tests/gpu/litmus.h"

extern "C" __global__ void __launch_bounds__(tutti::testing::kLitmusThreads)
    tutti_litmus(const __grid_constant__ tutti::testing::LitmusLaunch launch) {
  tutti::testing::Litmus(launch);
}
