// Shared by tests on GPU memory: a rank with all it needs, cases on several of them, and a fixture that skips tests
// without a GPU.
//
// Thread-safety: a DeviceRank belongs to its rank.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "testing/collective_case.h"
#include "testing/gpu.h"

namespace tutti::testing {

// A rank with a GPU, a communicator on it, a stream, and buffers.
class DeviceRank {
 public:
  DeviceRank(Rank& self, std::size_t most_bytes, const std::string& algorithm = "")
      : self_(self), gpu_(self.rank()), stream_(gpu_.NewStream()), arena_(gpu_, most_bytes) {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    if (!algorithm.empty()) config.algorithm = algorithm.c_str();
    comm_ = self.Join(&config);
    int device = TUTTI_DEVICE_NONE;
    EXPECT_TRUE(Ok(tuttiCommCuDevice(comm_, &device)));
    EXPECT_EQ(device, gpu_.ordinal());
  }
  ~DeviceRank() {
    comm_.Destroy();
    gpu_.DestroyStream(stream_);
  }

  std::string Run(const Case& each) { return Run(each, arena_); }
  std::string Run(const Case& each, Arena& arena) {
    return RunCase(each, self_.rank(), self_.size(), comm_, stream_, arena,
                   [&](tuttiStream_t stream) { return gpu_.Synchronize(stream); });
  }
  Gpu& gpu() { return gpu_; }
  tuttiStream_t stream() const { return stream_; }
  tuttiComm_t comm() const { return comm_; }
  tuttiComm_t ReleaseComm() { return comm_.Release(); }
  Arena& arena() { return arena_; }

 private:
  Rank& self_;
  Gpu gpu_;
  tuttiStream_t stream_;
  Arena arena_;
  Comm comm_;
};

// All ranks of a new communicator, in one thread and on the first GPU.
inline void InitAllOnOneGpu(tuttiComm_t* comms, int ranks) {
  const std::vector<int> devices(static_cast<std::size_t>(ranks), 0);
  ASSERT_TRUE(Ok(tuttiCommInitAll(comms, ranks, devices.data())));
}
// Makes a process see one GPU.
inline const std::pair<std::string, std::string> kOneGpu = {"CUDA_VISIBLE_DEVICES", "0"};

// The communicator that cases run on.
struct Surroundings {
  int ranks;
  std::string algorithm;  // empty: the selector's choice
  bool threads;
  std::vector<std::pair<std::string, std::string>> environment = {};
};

// Runs the cases, none of whose buffers is longer than `most_bytes`.
inline void RunCases(const Surroundings& around, const std::vector<Case>& cases, std::size_t most_bytes) {
  constexpr std::size_t kBeside = 4096;  // for guards, and a case's shift
  RunOptions options;
  options.threads = around.threads;
  options.environment = around.environment;
  SCOPED_TRACE(fmt::format("{} ranks as {}, algorithm \"{}\"", around.ranks, around.threads ? "threads" : "processes",
                           around.algorithm));
  RunRanks(
      around.ranks,
      [&](Rank& self) {
        DeviceRank rank(self, most_bytes + kBeside, around.algorithm);
        for (const auto& each : cases) ASSERT_EQ(rank.Run(each), "");
      },
      options);
}

// Makes an all-reduce of `elements` while another rank makes one of another length. The call or its kernel fails, and the
// next call names both counts.
inline void ExpectMismatch(DeviceRank& rank, std::size_t elements, std::size_t count, std::size_t other_count) {
  const auto result = tuttiAllReduce(rank.arena().send(), rank.arena().receive(), elements, tuttiFloat, tuttiSum,
                                     rank.comm(), rank.stream());
  // A program that waits and then asks once gets the error, even if kernels stop before any thread knows why.
  EXPECT_TRUE(Ok(rank.gpu().Synchronize(rank.stream()))) << "the kernel has ended";
  tuttiResult_t told = tuttiSuccess;
  EXPECT_TRUE(Ok(tuttiCommGetAsyncError(rank.comm(), &told)));
  EXPECT_EQ(result == tuttiSuccess ? told : result, tuttiInvalidUsage);
  // Any further call reports it, too.
  EXPECT_TRUE(Fails(tuttiBarrier(rank.comm(), rank.stream()), tuttiInvalidUsage,
                    {"do not match", fmt::format("count={}", count), fmt::format("count={}", other_count)}));
}

// All-reduces of up to 40,003 elements, some in place.
inline std::vector<Case> AllReducesOfEveryTypeAndOperator() {
  std::vector<Case> cases;
  for (int type = 0; type < tuttiNumTypes; ++type) {
    for (int op = 0; op < tuttiNumOps; ++op) {
      for (const std::size_t count : {1, 13, 4801, 40'003}) {
        const auto seed = static_cast<std::uint32_t>(cases.size() * 7919);
        cases.push_back({What::all_reduce, static_cast<tuttiDataType_t>(type), static_cast<tuttiRedOp_t>(op), count, 0,
                         seed % 3 == 0, seed});
      }
    }
  }
  return cases;
}

// Skips tests without a driver. A separate process checks this, because drivers do not tolerate the fork of this one.
class Device : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto outcome = RunRanks(1, [&](Rank& self) {
      self.Note(!Gpu::Exists() ? "none" : Gpu::IsFake() ? "the fake GPU" : "a GPU");
    });
    const auto& notes = outcome.front().notes;
    if (notes == std::vector<std::string>{"none"}) GTEST_SKIP() << "there is neither a GPU nor the fake one";
    fake_gpu_ = notes == std::vector<std::string>{"the fake GPU"};
  }
  // Why these circumstances refuse lines of 128 bytes (TUTTI_PROTO=inline), or "": GPUs of a host without NVLink.
  static std::string WhyNoLines(const std::vector<std::pair<std::string, std::string>>& environment = {}) {
    RunOptions options{.environment = environment};
    options.environment.emplace_back("TUTTI_PROTO", "inline");
    const auto outcome = RunRanks(
        4,
        [](Rank& self) {
          const Gpu gpu(self.rank());
          tuttiComm_t comm = nullptr;
          if (tuttiCommInitRank(&comm, self.size(), self.IdOf(), self.rank()) != tuttiSuccess) {
            return self.Note(tuttiGetLastError(nullptr));
          }
          EXPECT_TRUE(Ok(tuttiCommDestroy(comm)));
        },
        options);
    return outcome.front().notes.empty() ? "" : outcome.front().notes.front();
  }
  // Only the fake GPU can be told to be old or small, or what a dead handle does to the driver.
  bool fake_gpu_ = false;
};

}  // namespace tutti::testing
