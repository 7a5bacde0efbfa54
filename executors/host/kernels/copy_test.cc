#include "executors/host/kernels/copy.h"

#include <gtest/gtest.h>

#include <vector>

#include "executors/host/kernels/simd_testing.h"

namespace tutti::host_kernels {
namespace {

using CopyTest = OnEachTarget;

TEST_F(CopyTest, EverySizeAndAlignmentAndNothingBeside) {
  constexpr std::size_t kRoom = 128;
  constexpr std::byte kPaint{0xa5};
  std::vector<std::size_t> sizes = {1023, 1024, 1025, 4096, 10'007};
  for (std::size_t bytes = 0; bytes <= 200; ++bytes) sizes.push_back(bytes);
  for (const auto target : Targets()) {
    ForceTargets(target);
    for (const bool streamed : {false, true}) {
      for (const std::size_t bytes : sizes) {
        for (const std::size_t offset : {0, 1, 7, 16, 63}) {
          std::vector<std::byte> source(bytes + kRoom);
          for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 7 + i / 251);
          std::vector<std::byte> destination(bytes + 2 * kRoom, kPaint);
          CopyBytes(destination.data() + kRoom / 2 + offset, source.data() + offset / 3, bytes, streamed);
          StreamFence();
          auto expected = std::vector<std::byte>(destination.size(), kPaint);
          std::copy_n(source.begin() + offset / 3, bytes, expected.begin() + kRoom / 2 + offset);
          ASSERT_EQ(destination, expected)
              << hwy::TargetName(target) << " " << bytes << " bytes at " << offset << (streamed ? " streamed" : "");
        }
      }
    }
  }
}

TEST_F(CopyTest, NothingFromNullAndOntoItself) {
  CopyBytes(nullptr, nullptr, 0, true);
  for (const auto target : Targets()) {
    ForceTargets(target);
    std::vector<std::byte> buffer(5000, std::byte{3});
    const auto before = buffer;
    CopyBytes(buffer.data(), buffer.data(), buffer.size(), true);
    CopyBytes(buffer.data(), buffer.data(), buffer.size(), false);
    EXPECT_EQ(buffer, before) << hwy::TargetName(target);
  }
}

}  // namespace
}  // namespace tutti::host_kernels
