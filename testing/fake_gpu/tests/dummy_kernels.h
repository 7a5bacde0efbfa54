// The parameters of the kernels in dummy_kernels.cc.
#pragma once

#include <cstdint>

namespace tutti::fake_gpu {

struct Sum {
  const std::uint32_t* values;
  std::uint32_t count;
  std::uint64_t* per_block;  // zero before; one for each block
  std::uint64_t* total;      // the kernel adds to it
};

struct Meeting {
  std::uint32_t* here;
  std::uint32_t expected;
};

}  // namespace tutti::fake_gpu
