// Runs the litmus tests of the kernels' memory model on a GPU; on the fake GPU they only test their own code.
#include "tests/gpu/litmus.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "testing/device_rank.h"

namespace tutti::testing {
namespace {

constexpr std::uint32_t kRounds = 20'000;
// The fake GPU's GPU threads are threads of a process, which have to share a busy machine.
constexpr std::uint32_t kRoundsOfFakeGpu = 1'000;
// Those of two launches wait for each other's turns.
constexpr std::uint32_t kRoundsOfTwoFakeGpus = 100;

// The kernel for every architecture; beside the program, so that both can be moved.
constexpr char kImage[] = "litmus.fatbin";

// The launch's words and slots, in one zeroed allocation.
struct Memory {
  alignas(cuda_kernels::kLine128Bytes) cuda_kernels::Vector slots[kLitmusReaders * kLitmusDepth * kLitmusThreads];
  LitmusReader readers[kLitmusReaders];
  std::uint32_t wrong, stop;
};

std::vector<char> Image() {
  const auto path = std::filesystem::read_symlink("/proc/self/exe").parent_path() / kImage;
  std::ifstream file(path, std::ios::binary);
  std::vector<char> image((std::istreambuf_iterator<char>(file)), {});
  EXPECT_FALSE(image.empty()) << path;
  return image;
}

constexpr std::pair<LitmusWire, const char*> kWires[] = {
    {LitmusWire::bulk, "bulk"}, {LitmusWire::packets, "packets"}, {LitmusWire::lines, "lines"}};

class DeviceLitmus : public Device {};

// The writer's slots lie in the memory of the readers' device.
TEST_F(DeviceLitmus, BetweenTwoDevices) {
  const auto outcome = RunRanks(
      1,
      [](Rank& self) {
        if (Gpu::Count() < 2) return self.Note("there are no two GPUs");
        const Gpu writer(0), readers(1);
        if (!writer.Reach(readers)) return self.Note("the GPUs do not reach each other");
        const auto image = Image();
        writer.MakeCurrent();
        const auto writes = writer.NewStream();
        readers.MakeCurrent();
        const auto reads = readers.NewStream();
        const auto rounds = Gpu::IsFake() ? kRoundsOfTwoFakeGpus : kRounds;
        auto* const memory = reinterpret_cast<Memory*>(readers.Allocate(sizeof(Memory)));
        for (const auto& [wire, name] : kWires) {
          Memory host{};
          readers.MakeCurrent();
          readers.Put(reinterpret_cast<std::byte*>(memory), &host, sizeof host);
          LitmusLaunch launch{memory->slots, memory->readers, &memory->wrong, &memory->stop, rounds, wire, true};
          launch.first = 1;
          EXPECT_EQ(readers.Launch(image.data(), kLitmusName, kLitmusReaders, kLitmusThreads, &launch, reads), 0);
          launch.first = 0;
          writer.MakeCurrent();
          EXPECT_EQ(writer.Launch(image.data(), kLitmusName, 1, kLitmusThreads, &launch, writes), 0);
          ASSERT_TRUE(Ok(writer.Synchronize(writes)));
          readers.MakeCurrent();
          ASSERT_TRUE(Ok(readers.Synchronize(reads)));
          readers.Get(&host, reinterpret_cast<std::byte*>(memory), sizeof host);
          EXPECT_EQ(host.wrong, 0U) << name;
          for (const auto& reader : host.readers) EXPECT_EQ(reader.head, rounds) << "all rounds were read";
        }
        readers.Free(reinterpret_cast<std::byte*>(memory));
      },
      {.environment = {
           {"TUTTI_FAKE_GPU_THREADS", "3"}, {"TUTTI_FAKE_GPU_DEVICES", "2"}, {"CUDA_VISIBLE_DEVICES", "0,1"}}});
  if (!outcome.front().notes.empty()) GTEST_SKIP() << outcome.front().notes.front();
}

TEST_F(DeviceLitmus, NothingIsTornLostOrSeenTooEarly) {
  RunAlone(
      [] {
        const Gpu gpu(0);
        const auto image = Image();
        const auto stream = gpu.NewStream();
        const auto rounds = Gpu::IsFake() ? kRoundsOfFakeGpu : kRounds;
        auto* const memory = reinterpret_cast<Memory*>(gpu.AllocateShared(sizeof(Memory)));
        for (const auto& [wire, name] : kWires) {
          for (const bool wide : {false, true}) {
            std::memset(static_cast<void*>(memory), 0, sizeof *memory);
            LitmusLaunch launch{memory->slots, memory->readers, &memory->wrong, &memory->stop, rounds, wire, wide};
            EXPECT_EQ(gpu.Launch(image.data(), kLitmusName, 1 + kLitmusReaders, kLitmusThreads, &launch, stream), 0);
            ASSERT_TRUE(Ok(gpu.Synchronize(stream)));
            EXPECT_EQ(memory->wrong, 0u) << name << (wide ? ", wide" : "");
            for (const auto& reader : memory->readers) {
              EXPECT_EQ(reader.head, rounds) << "all rounds were read";
            }
          }
        }
        gpu.DestroyStream(stream);
        gpu.Free(reinterpret_cast<std::byte*>(memory));
      },
      {.environment = {{"TUTTI_FAKE_GPU_THREADS", "3"}}});
}

}  // namespace
}  // namespace tutti::testing
