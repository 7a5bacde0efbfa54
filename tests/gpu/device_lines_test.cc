// Device collectives by lines of 128 bytes (TUTTI_PROTO=inline): all types and operators, lengths around those of lines
// and slots, and where the hardware may tear lines, which must then not be used.
#include <string>
#include <utility>
#include <vector>

#include "base/numbers/datatype.h"
#include "testing/device_rank.h"

namespace tutti::testing {
namespace {

constexpr std::size_t KiB = 1024;

using Environment = std::vector<std::pair<std::string, std::string>>;

class DeviceLines : public Device {
 protected:
  void SetUp() override {
    Device::SetUp();
    if (IsSkipped()) return;
    if (const std::string why = WhyNoLines(); !why.empty()) GTEST_SKIP() << why;
  }
  static Environment Inline(Environment more = {}) {
    more.emplace_back("TUTTI_PROTO", "inline");
    return more;
  }
};

TEST_F(DeviceLines, EveryTypeAndOperator) {
  const auto cases = AllReducesOfEveryTypeAndOperator();
  // Several threads of a block, and one.
  RunCases({2, "two_shot", true, Inline({{"TUTTI_FAKE_GPU_THREADS", "3"}})}, cases, 512 * KiB);
  RunCases({3, "ring", false, Inline()}, cases, 512 * KiB);
}

TEST_F(DeviceLines, EveryAlgorithm) {
  for (const char* algorithm : {"direct", "two_shot", "ring", "double_binary_tree", "recursive", "recursive_doubling",
                                "bruck", "binomial", "grouped"}) {
    for (const int ranks : {2, 4}) {
      for (const bool threads : {true, false}) {
        RunCases({ranks, algorithm, threads, Inline()},
                 MixedCases(static_cast<std::uint32_t>(ranks + 40), 2 * kWhats, ranks, 256 * KiB), 256 * KiB);
      }
    }
  }
}

// Lengths at and beside whole lines and whole slots, in one channel, of every element's size.
TEST_F(DeviceLines, LengthsAroundLinesAndSlots) {
  std::vector<Case> cases;
  for (const auto type : {tuttiInt8, tuttiFloat16, tuttiInt32, tuttiFloat64}) {
    for (const std::size_t bytes : {120 * 8, 120 * 64, 64 * 1024, 3 * 64 * 1024}) {
      for (const int beside : {-1, 0, 1}) {
        const std::size_t count = bytes / tutti::SizeOf(type) + static_cast<std::size_t>(beside);
        const auto seed = static_cast<std::uint32_t>(cases.size());
        for (const auto what : {What::all_reduce, What::broadcast, What::all_gather}) {
          cases.push_back({what, type, tuttiSum, count, 0, seed % 2 == 0, seed});
        }
      }
    }
  }
  for (const char* chunk : {"0", "1920"}) {
    RunCases({2, "direct", true, Inline({{"TUTTI_CHANNELS", "1"}, {"TUTTI_CHUNK", chunk}})}, cases, 1024 * KiB);
  }
}

TEST_F(DeviceLines, OnTwoDevices) {
  if (!fake_gpu_) GTEST_SKIP() << "the machine may have one GPU, or no NVLink";
  for (const bool threads : {true, false}) {
    RunCases({4, "", threads, Inline({{"TUTTI_FAKE_GPU_DEVICES", "2"}})}, MixedCases(43, 2 * kWhats, 4, 256 * KiB),
             256 * KiB);
  }
}

// What tears lines is named, on every rank.
TEST_F(DeviceLines, AreRefusedWhereTheyMayBeTorn) {
  const std::string any = "TUTTI_PROTO=inline needs one GPU for all ranks of a host, or NVLink between all its GPUs: ";
  EXPECT_EQ(WhyNoLines({{"TUTTI_VIRTUAL_HOSTS", "1"}, {"TUTTI_GPU_P2P", "0"}}), any + "rank 0 has TUTTI_GPU_P2P=0");
  EXPECT_EQ(WhyNoLines({{"TUTTI_VIRTUAL_HOSTS", "4"}, {"TUTTI_GPU_P2P", "0"}}), "") << "each rank is alone";
  if (!fake_gpu_) return;
  EXPECT_EQ(WhyNoLines({{"TUTTI_VIRTUAL_HOSTS", "2"}, {"TUTTI_FAKE_GPU_DEVICES", "4"}}), "");
  EXPECT_EQ(WhyNoLines({{"TUTTI_VIRTUAL_HOSTS", "2"}, {"TUTTI_FAKE_GPU_DEVICES", "4"}, {"TUTTI_FAKE_GPU_NVLINK", "0"}}),
            any + "rank 0 sees no NVLink between its GPU and that of rank 1");
  EXPECT_EQ(WhyNoLines({{"TUTTI_FAKE_GPU_DEVICES", "2"}, {"TUTTI_FAKE_GPU_NVLINK", "0"}}),
            any + "rank 0 sees no NVLink between its GPU and that of rank 1");
  EXPECT_EQ(WhyNoLines({{"TUTTI_FAKE_GPU_DEVICES", "2"}, {"TUTTI_FAKE_GPU_PEERS", "0"}}),
            any + "rank 0 sees no NVLink between its GPU and that of rank 1");
  // The default is the same protocol where it holds, and another one here.
  RunCases({2, "", false, {{"TUTTI_FAKE_GPU_DEVICES", "2"}, {"TUTTI_FAKE_GPU_NVLINK", "0"}}},
           MixedCases(44, kWhats, 2, 256 * KiB), 256 * KiB);
}

}  // namespace
}  // namespace tutti::testing
