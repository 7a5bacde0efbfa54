// Data between hosts in the memory of GPUs, where NICs read and write them (GPUDirect RDMA): that it is right, and why it is
// not done. The suite DirectOnNics runs where there are NICs, and a stand-in for what they do with such memory
// (tests/guest/on_gpu_memory.sh).
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "testing/device_rank.h"

namespace tutti::testing {
namespace {

using Environment = std::vector<std::pair<std::string, std::string>>;

constexpr std::size_t KiB = 1024;

RunOptions BetweenHosts(const Environment& environment) {
  RunOptions options{.environment = environment};
  options.environment.emplace_back("TUTTI_VIRTUAL_HOSTS", "2");
  options.environment.emplace_back("TUTTI_DEBUG", "init");
  return options;
}

// What the log of each rank says about where data between hosts lie. `of_rank_1`: this rank's setting, if not empty.
std::array<std::string, 2> ToldByEach(const Environment& environment, const std::vector<Case>& cases = {},
                                      const std::string& of_rank_1 = "") {
  constexpr std::size_t kMostBytes = 512 * KiB;
  const auto outcome = RunRanks(
      2,
      [&](Rank& self) {
        if (self.rank() == 1 && !of_rank_1.empty()) setenv("TUTTI_GPUDIRECT", of_rank_1.c_str(), 1);
        ::testing::internal::CaptureStderr();
        {
          DeviceRank rank(self, kMostBytes);
          for (const auto& each : cases) EXPECT_EQ(rank.Run(each), "");
        }
        const std::string log = ::testing::internal::GetCapturedStderr();
        const auto begin = log.find("data between hosts lie in ");
        self.Note(begin == std::string::npos ? "nothing: " + log : log.substr(begin, log.find('\n', begin) - begin));
      },
      BetweenHosts(environment));
  const auto word = [](const Outcome& rank) { return rank.notes.empty() ? "no word" : rank.notes.back(); };
  return {word(outcome[0]), word(outcome[1])};
}

// Rank 0's.
std::string Told(const Environment& environment, const std::vector<Case>& cases = {}) {
  return ToldByEach(environment, cases).front();
}

std::vector<Case> Calls() {
  return {{What::all_reduce, tuttiFloat32, tuttiSum, 5},
          {What::all_reduce, tuttiFloat32, tuttiSum, 120'001},
          {What::all_gather, tuttiInt8, tuttiSum, 70'003},
          {What::alltoall, tuttiInt32, tuttiSum, 20'001},
          {What::broadcast, tuttiFloat16, tuttiSum, 200'001, 1},
          {What::shift, tuttiInt8, tuttiSum, 200'003, 1},
          {What::barrier}};
}

class DeviceDirect : public Device {
 protected:
  void SetUp() override {
    Device::SetUp();
    if (!IsSkipped() && !fake_gpu_) GTEST_SKIP() << "only the fake GPU can be told what it cannot do";
  }
};

TEST_F(DeviceDirect, OtherTransportsMoveHostMemory) {
  const auto told = Told({{"TUTTI_NET", "tcp"}, {"TUTTI_GPUDIRECT", "SYS"}});
  EXPECT_EQ(
      told,
      "data between hosts lie in pinned host memory: tcp moves data of host memory alone; verbs also move that of "
      "GPUs (TUTTI_NET=verbs)");
}

constexpr const char* kNotAskedFor =
    "data between hosts lie in pinned host memory: TUTTI_GPUDIRECT is LOC (PXB lets near NICs use the GPU's memory, "
    "which "
    "has never run on a real GPU or NIC)";

TEST_F(DeviceDirect, HasToBeAskedFor) {
  EXPECT_EQ(Told({{"TUTTI_NET", "tcp"}}), kNotAskedFor);
  EXPECT_EQ(Told({{"TUTTI_NET", "tcp"}, {"TUTTI_GPUDIRECT", "LOC"}}), kNotAskedFor);
}

// Each call pins what it needs.
TEST_F(DeviceDirect, NothingNeedBePinnedAtFirst) { Told({{"TUTTI_NET", "tcp"}, {"TUTTI_PIN_MIB", "0"}}, Calls()); }

class DirectOnNics : public Device {
 protected:
  void SetUp() override {
    Device::SetUp();
    if (!IsSkipped() && std::getenv("LD_PRELOAD") == nullptr) GTEST_SKIP() << "on_gpu_memory.sh has not started it";
  }
  static Environment With(Environment more = {}) {
    more.emplace_back("TUTTI_NET", "verbs");
    if (std::ranges::none_of(more, [](const auto& each) { return each.first == "TUTTI_GPUDIRECT"; })) {
      more.emplace_back("TUTTI_GPUDIRECT", "SYS");
    }
    return more;
  }
  static constexpr const char* kDirect = "data between hosts lie in the GPU's memory (GPUDirect)";
  static constexpr const char* kPinned = "data between hosts lie in pinned host memory: ";
};

TEST_F(DirectOnNics, CallsAreRight) { EXPECT_EQ(Told(With(), Calls()), kDirect); }

// The one whose data lie in pinned memory sends to a GPU's, and gets data from one.
TEST_F(DirectOnNics, EachRankDecidesForItself) {
  using Words = std::array<std::string, 2>;
  EXPECT_EQ(ToldByEach(With(), Calls(), "LOC"), (Words{kDirect, kNotAskedFor}));
  EXPECT_EQ(ToldByEach(With({{"TUTTI_GPUDIRECT", "LOC"}}), {{What::shift, tuttiInt8, tuttiSum, 200'003, 1}}, "SYS"),
            (Words{kNotAskedFor, kDirect}));
}

TEST_F(DirectOnNics, HasToBeAskedFor) {
  EXPECT_EQ(Told({{"TUTTI_NET", "verbs"}}, {{What::all_reduce, tuttiFloat32, tuttiSum, 5}}), kNotAskedFor);
}

// Kernels in a process of their own reach nothing but the GPU's memory and pinned memory.
TEST_F(DirectOnNics, KernelsReachTheDataThemselves) {
  EXPECT_EQ(Told(With({{"TUTTI_FAKE_GPU_APART", "1"}}), {{What::all_reduce, tuttiFloat32, tuttiSum, 50'001}}), kDirect);
}

// There is memory for a ring from the first call on that uses it. A rank that is ahead fills slots for rings of the other one
// that have none yet: they wait.
TEST_F(DirectOnNics, ARankThatIsAheadWaits) {
  constexpr std::size_t kMostBytes = 512 * KiB;
  constexpr std::chrono::milliseconds kAhead{500};
  RunRanks(
      2,
      [&](Rank& self) {
        DeviceRank rank(self, kMostBytes);
        // Connects the ranks, by the only ring that has memory at once: until then nothing would arrive.
        EXPECT_EQ(rank.Run({What::shift, tuttiInt8, tuttiSum, 1003, 1}), "");
        for (const auto& each : Calls()) {
          self.Meet();
          if (self.rank() == 1) std::this_thread::sleep_for(kAhead);
          EXPECT_EQ(rank.Run(each), "");
        }
      },
      BetweenHosts(With({{"TUTTI_PIN_MIB", "0"}})));
}

// PXB: PCI switches alone are between GPU and NIC. The file is a DGX H100's, whose first GPU is the fake one, and of whose NICs
// two are the guest's: one beside that GPU, and one of the other socket.
TEST_F(DirectOnNics, DistanceDecides) {
  std::ifstream dgx(TUTTI_SOURCE_DIR "/topology/testdata/dgxh100.xml");
  std::string text(std::istreambuf_iterator<char>(dgx), {});
  for (const auto& [from, to] :
       {std::pair("\"0000:10:00.0\"", "\"0000:0f:00.0\""), std::pair("\"0000:11:00.0\"", "\"0000:10:00.0\""),
        std::pair("\"mlx5_0\"", "\"rxe0\""), std::pair("\"mlx5_7\"", "\"rxe1\"")}) {
    const auto at = text.find(from);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, std::string(from).size(), to);
  }
  const std::string file = ::testing::TempDir() + "direct_on_nics.xml";
  std::ofstream(file) << text;
  const auto told = [&](const std::string& nic) {
    return Told(With({{"TUTTI_TOPO_FILE", file}, {"TUTTI_GPUDIRECT", "PXB"}, {"TUTTI_IB_HCA", "=" + nic}}),
                {{What::all_reduce, tuttiFloat32, tuttiSum, 5}});
  };
  EXPECT_EQ(told("rxe0"), kDirect);
  EXPECT_EQ(told("rxe1"),
            kPinned + std::string("the GPU is SYS from rxe1, but PXB at most is allowed (TUTTI_GPUDIRECT; "
                                  "TUTTI_IB_HCA leaves NICs out)"));
  std::remove(file.c_str());
}

TEST_F(DirectOnNics, WhatCannotBeIsSaidWithARemedy) {
  const auto refused = [](const Environment& environment, const std::string& words,
                          const std::vector<Case>& cases = {}) {
    const auto told = Told(With(environment), cases);
    EXPECT_EQ(told.find(kPinned), 0U) << told;
    EXPECT_NE(told.find(words), std::string::npos) << told;
  };
  refused({{"TUTTI_FAKE_GPU_DMA_BUF", "0"}}, "open kernel modules and Linux 5.12 or later",
          {{What::all_reduce, tuttiFloat32, tuttiSum, 50'001}});
  refused({{"TUTTI_FAKE_GPU_DMA_BUF", "2"}}, "gives NICs none of its memory (cuMemGetHandleForAddressRange: ");
  refused({{"TUTTI_FAKE_GPU_RDMA_ORDER", "0"}}, "unless they are flushed, which Tutti does not do");
  refused({{"TUTTI_FAKE_GPU_NIC_REFUSES", "1"}}, "the NIC's driver and Linux must know dma-buf");
  refused({{"TUTTI_GPUDIRECT", "PXB"}}, "the topology does not show how far rxe0 is from the GPU");
}

}  // namespace
}  // namespace tutti::testing
