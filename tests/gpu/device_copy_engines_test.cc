// All-gathers and all-to-alls by the GPU's copy engines (TUTTI_COPY_ENGINE): that they are right, in stream order and in
// graphs, where they are not taken, and what is said of ranks whose windows differ.
#include <cstdlib>
#include <string>
#include <vector>

#include "testing/device_rank.h"
#include "testing/from_outside.h"

namespace tutti::testing {
namespace {

constexpr std::size_t kCount = 40'001;  // floats of a block: more than 128 KiB
constexpr std::size_t kBlock = kCount * sizeof(float);
constexpr std::size_t kBefore = 256;  // bytes of the window before an input

class DeviceCopyEngines : public Device, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    Device::SetUp();
    if (std::getenv("TUTTI_VIRTUAL_HOSTS") != nullptr) GTEST_SKIP() << "copy engines reach ranks of one host";
  }
  // Threads whose ranks share a GPU are launched together, which has rules of its own.
  void NeedsAGpuEach() const {
    const bool all_see_all = fake_gpu_ && std::getenv("TUTTI_TEST_DEVICES_EACH") == nullptr;
    if (GetParam() && !all_see_all) GTEST_SKIP() << "this process may see one GPU";
  }
  static RunOptions Options(const std::string& on = "1", const std::string& devices = "4") {
    return {.threads = GetParam(), .environment = {{"TUTTI_COPY_ENGINE", on}, {"TUTTI_FAKE_GPU_DEVICES", devices}}};
  }
};

// A rank with a window for inputs and memory for outputs, both for a block of each rank.
class Side {
 public:
  explicit Side(Rank& self, int flags = TUTTI_WIN_SYMMETRIC)
      : self_(self), rank_(self, kBlock), bytes_(kBlock * static_cast<std::size_t>(self.size())) {
    // Before ranks meet: a driver may let allocations wait for kernels, which may wait for this rank.
    output_ = gpu().Allocate(bytes_);
    EXPECT_TRUE(Ok(tuttiMemAlloc(&window_memory_, 2 * kBefore + bytes_)));
    EXPECT_TRUE(Ok(tuttiCommWindowRegister(rank_.comm(), window_memory_, 2 * kBefore + bytes_, &window_, flags)));
  }
  ~Side() {
    EXPECT_TRUE(Ok(Synchronize()));
    gpu().Free(output_);
    EXPECT_TRUE(Ok(tuttiMemFree(window_memory_)));
  }

  DeviceRank& rank() { return rank_; }
  Gpu& gpu() { return rank_.gpu(); }
  std::size_t bytes() const { return bytes_; }
  std::byte* input() { return static_cast<std::byte*>(window_memory_) + kBefore; }
  std::byte* output() { return output_; }
  // Of the input, where that is gathered in place.
  std::byte* own_block() { return input() + static_cast<std::size_t>(self_.rank()) * kBlock; }
  tuttiResult_t Synchronize() { return gpu().Synchronize(rank_.stream()); }

  // What `from` sends to `to`; an all-gather sends the same to all.
  static float Value(int from, int to, int round, std::size_t i) {
    return static_cast<float>(1000 * round + 100 * from + 10 * to) + static_cast<float>(i % 7);
  }
  // For each rank in turn.
  std::vector<float> Sent(int round, bool exchange) const {
    std::vector<float> all;
    for (int to = 0; to < self_.size(); ++to) {
      for (std::size_t i = 0; i < kCount; ++i) all.push_back(Value(self_.rank(), exchange ? to : 0, round, i));
    }
    return all;
  }
  std::vector<float> Expected(int round, bool exchange) const {
    std::vector<float> all;
    for (int from = 0; from < self_.size(); ++from) {
      for (std::size_t i = 0; i < kCount; ++i) all.push_back(Value(from, exchange ? self_.rank() : 0, round, i));
    }
    return all;
  }
  std::vector<float> Got(const std::byte* from) {
    std::vector<float> all(bytes_ / sizeof(float));
    gpu().Get(all.data(), from, bytes_);
    return all;
  }
  tuttiResult_t Call(bool exchange, const void* input, void* output, std::size_t count = kCount) {
    return exchange ? tuttiAlltoAll(input, output, count, tuttiFloat, rank_.comm(), rank_.stream())
                    : tuttiAllGather(input, output, count, tuttiFloat, rank_.comm(), rank_.stream());
  }
  bool ByEngines() { return LastOperation(rank_.comm()).find("copy engines") != std::string::npos; }

 private:
  Rank& self_;
  DeviceRank rank_;
  std::size_t bytes_;
  void* window_memory_ = nullptr;
  tuttiWindow_t window_ = nullptr;
  std::byte* output_ = nullptr;
};

TEST_P(DeviceCopyEngines, MoveEveryBlock) {
  for (const char* devices : {"4", "1"}) {
    RunRanks(
        3,
        [](Rank& self) {
          Side side(self);
          for (int round = 0; round < 3; ++round) {
            for (const bool exchange : {false, true}) {
              side.gpu().Put(side.input(), side.Sent(round, exchange).data(), side.bytes());
              ASSERT_TRUE(Ok(side.Call(exchange, side.input(), side.output())));
              ASSERT_TRUE(Ok(side.Synchronize()));
              EXPECT_TRUE(side.ByEngines()) << LastOperation(side.rank().comm());
              ASSERT_EQ(side.Got(side.output()), side.Expected(round, exchange));
            }
            side.gpu().Put(side.own_block(), side.Sent(round + 10, false).data(), kBlock);
            ASSERT_TRUE(Ok(side.Call(false, side.own_block(), side.input())));
            ASSERT_TRUE(Ok(side.Synchronize()));
            EXPECT_TRUE(side.ByEngines());
            ASSERT_EQ(side.Got(side.input()), side.Expected(round + 10, false)) << "in place";
          }
        },
        Options("1", devices));
  }
}

// No rank writes its next input while others read the one before, however far ahead it is; some groups have other calls, too.
TEST_P(DeviceCopyEngines, KeepTheOrderOfStreams) {
  RunRanks(
      3,
      [](Rank& self) {
        constexpr int kRounds = 6;
        Side side(self);
        const auto stream = side.rank().stream();
        std::byte* const kept = side.gpu().Allocate(2 * kRounds * side.bytes());
        std::byte *const sent = kept, *const got = kept + kRounds * side.bytes();
        for (int round = 0; round < kRounds; ++round) {
          side.gpu().Put(sent + round * side.bytes(), side.Sent(round, round % 2 == 0).data(), side.bytes());
        }
        self.Meet();
        for (int round = 0; round < kRounds; ++round) {
          const std::size_t at = static_cast<std::size_t>(round) * side.bytes();
          side.gpu().CopyAsync(side.input(), sent + at, side.bytes(), stream);
          ASSERT_TRUE(Ok(tuttiGroupStart()));
          if (round % 3 == 0) {
            EXPECT_TRUE(Ok(tuttiBarrier(side.rank().comm(), stream)));
          }
          EXPECT_TRUE(Ok(side.Call(round % 2 == 0, side.input(), side.output())));
          ASSERT_TRUE(Ok(tuttiGroupEnd()));
          side.gpu().CopyAsync(got + at, side.output(), side.bytes(), stream);
        }
        ASSERT_TRUE(Ok(side.Synchronize()));
        for (int round = 0; round < kRounds; ++round) {
          ASSERT_EQ(side.Got(got + round * side.bytes()), side.Expected(round, round % 2 == 0)) << round;
        }
        side.gpu().Free(kept);
      },
      Options());
}

TEST_P(DeviceCopyEngines, InGraphs) {
  NeedsAGpuEach();
  if (IsSkipped()) return;
  RunRanks(
      2,
      [](Rank& self) {
        Side side(self);
        const auto stream = side.rank().stream();
        side.gpu().BeginCapture(stream);
        EXPECT_TRUE(Ok(side.Call(true, side.input(), side.output())));
        void* const graph = side.gpu().EndCapture(stream);
        for (int round = 0; round < 3; ++round) {
          side.gpu().Put(side.input(), side.Sent(round, true).data(), side.bytes());
          side.gpu().LaunchGraph(graph, stream);
          ASSERT_TRUE(Ok(side.Synchronize()));
          ASSERT_EQ(side.Got(side.output()), side.Expected(round, true));
        }
      },
      Options());
}

TEST_P(DeviceCopyEngines, AreNotTakenForWhatTheyCannotDo) {
  RunRanks(
      2,
      [](Rank& self) {
        Side side(self);
        std::byte* const elsewhere = side.gpu().Allocate(side.bytes());
        self.Meet();
        ASSERT_TRUE(Ok(side.Call(false, elsewhere, side.output())));
        EXPECT_FALSE(side.ByEngines()) << "no window";
        ASSERT_TRUE(Ok(side.Call(false, side.input(), side.output(), 100)));
        EXPECT_FALSE(side.ByEngines()) << "short";
        ASSERT_TRUE(Ok(side.Call(true, side.input(), side.input())));
        EXPECT_FALSE(side.ByEngines()) << "an exchange in place";
        ASSERT_TRUE(Ok(side.Synchronize()));
        side.gpu().Free(elsewhere);
      },
      Options());
  RunRanks(
      2,
      [](Rank& self) {
        Side side(self);
        ASSERT_TRUE(Ok(side.Call(false, side.input(), side.output())));
        EXPECT_FALSE(side.ByEngines()) << "nobody asked for them";
      },
      Options("0"));
  RunRanks(
      2,
      [](Rank& self) {
        Side side(self, TUTTI_WIN_DEFAULT);
        std::byte* const input = side.input() - (self.rank() == 0 ? 0 : kBefore);
        side.gpu().Put(input, side.Sent(1, false).data(), side.bytes());
        self.Meet();
        ASSERT_TRUE(Ok(side.Call(false, input, side.output())));
        ASSERT_TRUE(Ok(side.Synchronize()));
        EXPECT_FALSE(side.ByEngines()) << "no rank promised equal offsets";
        ASSERT_EQ(side.Got(side.output()), side.Expected(1, false));
      },
      Options());
}

TEST_P(DeviceCopyEngines, OtherOffsetsAreNamed) {
  for (const char* devices : {"4", "1"}) {
    RunRanks(
        2,
        [](Rank& self) {
          Side side(self);
          side.gpu().Put(side.input(), side.Sent(1, true).data(), side.bytes());
          self.Meet();
          const auto result = side.Call(false, side.input() - (self.rank() == 0 ? 0 : kBefore), side.output());
          EXPECT_TRUE(Ok(side.Synchronize())) << "the kernels have ended";
          tuttiResult_t told = tuttiSuccess;
          EXPECT_TRUE(Ok(tuttiCommGetAsyncError(side.rank().comm(), &told)));
          EXPECT_EQ(result == tuttiSuccess ? told : result, tuttiInvalidUsage);
          EXPECT_TRUE(Fails(tuttiBarrier(side.rank().comm(), side.rank().stream()), tuttiInvalidUsage,
                            {"do not match", "different offsets"}));
          EXPECT_EQ(side.Got(side.input()), side.Sent(1, true)) << "nobody has written there";
        },
        Options("1", devices));
  }
}

TEST_P(DeviceCopyEngines, DoNotWaitForARankThatIsGone) {
  NeedsAGpuEach();
  if (IsSkipped()) return;
  RunRanks(
      3,
      [](Rank& self) {
        Side side(self);
        ASSERT_TRUE(Ok(side.Call(false, side.input(), side.output())));
        ASSERT_TRUE(Ok(side.Synchronize()));
        self.Meet();
        if (self.rank() == 2) {
          EXPECT_TRUE(Ok(tuttiCommAbort(side.rank().ReleaseComm())));
        } else {
          const auto result = side.Call(true, side.input(), side.output());
          EXPECT_TRUE(Ok(side.Synchronize()));
          tuttiResult_t told = tuttiSuccess;
          EXPECT_TRUE(Ok(tuttiCommGetAsyncError(side.rank().comm(), &told)));
          EXPECT_NE(result == tuttiSuccess ? told : result, tuttiSuccess);
        }
        self.Meet();  // until then, others may read the window
      },
      Options());
}

INSTANTIATE_TEST_SUITE_P(AsThreadsAndProcesses, DeviceCopyEngines, ::testing::Bool());

}  // namespace
}  // namespace tutti::testing
