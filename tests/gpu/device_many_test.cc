// Many communicators on one GPU, as a program has with data, tensor and pipeline parallelism; and windows that come and
// go on it.
#include <array>
#include <cstdlib>
#include <vector>

#include "testing/device_rank.h"

namespace tutti::testing {
namespace {

constexpr int kCommunicators = 16;
constexpr std::size_t kCount = 5000;

class DeviceMany : public Device, public ::testing::WithParamInterface<bool> {};

// All have work at the same time, on streams of their own, small and large.
TEST_P(DeviceMany, CommunicatorsShareAGpu) {
  RunRanks(2,
           [](Rank& self) {
             constexpr std::size_t kMost = kCount * sizeof(float);
             DeviceRank first(self, kMost);
             Gpu& gpu = first.gpu();
             struct Each {
               Comm comm;
               tuttiStream_t stream;
               void* data;
             };
             std::vector<Each> all;
             for (int c = 0; c < kCommunicators - 1; ++c) {
               Each each{Comm(), gpu.NewStream(), nullptr};
               ASSERT_TRUE(Ok(tuttiCommSplit(first.comm(), 0, self.rank(), each.comm.address(), nullptr)));
               ASSERT_TRUE(Ok(tuttiMemAlloc(&each.data, kMost)));
               all.push_back(std::move(each));
             }
             for (int round = 0; round < 3; ++round) {
               for (std::size_t c = 0; c < all.size(); ++c) {
                 const std::vector<float> values(kCount, static_cast<float>(c + 1));
                 gpu.Put(static_cast<std::byte*>(all[c].data), values.data(), kMost);
                 const std::size_t count = c % 2 == 0 ? kCount : 2;
                 ASSERT_TRUE(Ok(tuttiAllReduce(all[c].data, all[c].data, count, tuttiFloat32, tuttiSum, all[c].comm,
                                               all[c].stream)));
               }
               for (std::size_t c = 0; c < all.size(); ++c) {
                 ASSERT_TRUE(Ok(gpu.Synchronize(all[c].stream)));
                 std::array<float, 2> got{};
                 gpu.Get(got.data(), static_cast<std::byte*>(all[c].data), sizeof got);
                 EXPECT_EQ(got[1], static_cast<float>(2 * (c + 1))) << "communicator " << c << ", round " << round;
               }
             }
             for (auto& each : all) {
               each.comm.Destroy();
               gpu.DestroyStream(each.stream);
               EXPECT_TRUE(Ok(tuttiMemFree(each.data)));
             }
           },
           {.threads = GetParam(), .limit = std::chrono::seconds(120)});
}

// More often than the kernels' table has rows; a rank's window stays readable until it deregisters, too.
TEST_P(DeviceMany, WindowsComeAndGo) {
  RunRanks(2,
           [](Rank& self) {
             constexpr std::size_t kMost = kCount * sizeof(float);
             DeviceRank rank(self, kMost);
             Gpu& gpu = rank.gpu();
             void* memory = nullptr;
             ASSERT_TRUE(Ok(tuttiMemAlloc(&memory, 2 * kMost)));
             auto* const data = static_cast<std::byte*>(memory);
             constexpr int kRounds = 250;
             for (int round = 0; round < kRounds; ++round) {
               tuttiWindow_t window = nullptr;
               ASSERT_TRUE(Ok(tuttiCommWindowRegister(rank.comm(), data, kMost, &window, TUTTI_WIN_DEFAULT))) << round;
               if (round % 50 == 0) {
                 void* place = nullptr;
                 ASSERT_TRUE(Ok(tuttiCommWindowPointer(rank.comm(), window, 1 - self.rank(), 0, &place)));
                 EXPECT_EQ(place != nullptr, std::getenv("TUTTI_VIRTUAL_HOSTS") == nullptr)
                     << "the peer is on this host";
                 if (self.rank() == 0) {
                   ASSERT_TRUE(Ok(tuttiCommWindowDeregister(rank.comm(), window)));
                 }
                 const std::vector<float> values(kCount, static_cast<float>(round + self.rank()));
                 gpu.Put(data, values.data(), kMost);
                 ASSERT_TRUE(Ok(
                     tuttiAllReduce(data, data + kMost, kCount, tuttiFloat32, tuttiSum, rank.comm(), rank.stream())));
                 ASSERT_TRUE(Ok(gpu.Synchronize(rank.stream())));
                 float last = 0;
                 gpu.Get(&last, data + 2 * kMost - sizeof last, sizeof last);
                 EXPECT_EQ(last, static_cast<float>(2 * round + 1));
                 if (self.rank() == 0) continue;
               }
               ASSERT_TRUE(Ok(tuttiCommWindowDeregister(rank.comm(), window)));
             }
             EXPECT_TRUE(Ok(tuttiMemFree(memory)));
           },
           {.threads = GetParam(), .limit = std::chrono::seconds(120)});
}

INSTANTIATE_TEST_SUITE_P(AsThreadsAndProcesses, DeviceMany, ::testing::Bool());

}  // namespace
}  // namespace tutti::testing
