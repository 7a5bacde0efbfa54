// Runs the litmus tests of the kernels' memory model on a GPU; on the fake GPU they only test their own code.
#include "tests/gpu/litmus.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "testing/gpu.h"
#include "testing/ranks.h"

namespace tutti::testing {
namespace {

constexpr std::uint32_t kRounds = 20'000;
// The fake GPU's GPU threads are threads of a process, which have to share a busy machine.
constexpr std::uint32_t kRoundsOfFakeGpu = 1'000;

// The kernel for every architecture; beside the program, so that both can be moved.
constexpr char kImage[] = "litmus.fatbin";

// The launch's words and slots, in one zeroed allocation.
struct Memory {
  alignas(cuda_kernels::kLine128Bytes) cuda_kernels::Vector slots[kLitmusReaders * kLitmusDepth * kLitmusThreads];
  LitmusReader readers[kLitmusReaders];
  std::uint32_t wrong, stop;
};

TEST(DeviceLitmus, NothingIsTornLostOrSeenTooEarly) {
  const auto outcome = RunRanks(
      1,
      [](Rank& self) {
        if (!Gpu::Exists()) return self.Note("no GPU");
        const Gpu gpu(0);
        const auto path = std::filesystem::read_symlink("/proc/self/exe").parent_path() / kImage;
        std::ifstream file(path, std::ios::binary);
        const std::vector<char> image((std::istreambuf_iterator<char>(file)), {});
        ASSERT_FALSE(image.empty()) << path;
        const auto stream = gpu.NewStream();
        const auto rounds = Gpu::IsFake() ? kRoundsOfFakeGpu : kRounds;
        auto* const memory = reinterpret_cast<Memory*>(gpu.AllocateShared(sizeof(Memory)));
        for (const auto& [wire, name] : {std::pair{LitmusWire::bulk, "bulk"}, std::pair{LitmusWire::packets, "packets"},
                                         std::pair{LitmusWire::lines, "lines"}}) {
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
  if (!outcome.front().notes.empty()) GTEST_SKIP() << "there is neither a GPU nor the fake one";
}

}  // namespace
}  // namespace tutti::testing
