// Windows on memory that is mapped by hand: PyTorch's expandable segments, and what tuttiMemAlloc gives.
#include <cstdlib>
#include <vector>

#include "testing/device_places.h"

namespace tutti::testing {
namespace {

constexpr std::size_t KiB = 1024;

class DeviceMapped : public DeviceInPlaces {};

TEST_P(DeviceMapped, WindowsOverSeveralPieces) {
  RunRanks(
      3,
      [](Rank& self) {
        DeviceRank rank(self, KiB);
        constexpr std::size_t kMost = 256 * KiB;
        Arena arena(rank.gpu(), kMost + 4 * KiB, Arena::Kind::in_pieces);
        arena.Register(rank.comm());
        for (const auto& each : MixedCases(15, 2 * kWhats, self.size(), kMost)) ASSERT_EQ(rank.Run(each, arena), "");
        arena.Deregister(rank.comm());
        ASSERT_EQ(rank.Run({What::all_reduce, tuttiFloat32, tuttiSum, 30'000, 0, false, 1}, arena), "");
      },
      options());
}

// More pieces than travel at a time; the ranks have different numbers of them, and one has memory of cudaMalloc.
TEST_P(DeviceMapped, PutsReachEveryPiece) {
  if (std::getenv("TUTTI_VIRTUAL_HOSTS") != nullptr) GTEST_SKIP() << "one-sided calls reach ranks of one host";
  RunRanks(
      3,
      [](Rank& self) {
        DeviceRank rank(self, KiB);
        const Gpu& gpu = rank.gpu();
        constexpr std::size_t kBegin = 3 * KiB, kInt = sizeof(int);
        const std::size_t pieces = 7 - static_cast<std::size_t>(self.rank());
        const bool in_pieces = self.rank() != 2;
        auto* const memory = in_pieces ? gpu.MapPieces(pieces) : gpu.Allocate(pieces * Gpu::kPiece);
        tuttiWindow_t window = nullptr;
        ASSERT_TRUE(Ok(tuttiCommWindowRegister(rank.comm(), memory + kBegin, pieces * Gpu::kPiece - kBegin, &window,
                                               TUTTI_WIN_DEFAULT)));
        const int to = (self.rank() + 1) % 3, from = (self.rank() + 2) % 3;
        for (std::size_t piece = 0; piece < 7 - static_cast<std::size_t>(to); ++piece) {
          const int value = 100 * self.rank() + static_cast<int>(piece);
          gpu.Put(rank.arena().send() + piece * kInt, &value, kInt);
          ASSERT_TRUE(
              Ok(tuttiPutSignal(rank.arena().send() + piece * kInt, 1, tuttiInt, to, window,
                                (piece + 1) * Gpu::kPiece - kBegin - kInt, 0, 0, 0, rank.comm(), rank.stream())));
        }
        tuttiWaitSignalDesc_t all{static_cast<int>(pieces), from, 0, 0};
        ASSERT_TRUE(Ok(tuttiWaitSignal(1, &all, rank.comm(), rank.stream())));
        ASSERT_TRUE(Ok(gpu.Synchronize(rank.stream())));
        for (std::size_t piece = 0; piece < pieces; ++piece) {
          int got = -1;
          gpu.Get(&got, memory + (piece + 1) * Gpu::kPiece - kInt, kInt);
          EXPECT_EQ(got, 100 * from + static_cast<int>(piece)) << piece;
        }
        // By its address, too.
        void* place = nullptr;
        ASSERT_TRUE(Ok(tuttiCommWindowPointer(rank.comm(), window, to, Gpu::kPiece - kBegin - kInt, &place)));
        int theirs = -1;
        gpu.Get(&theirs, static_cast<std::byte*>(place), kInt);
        EXPECT_EQ(theirs, 100 * self.rank());
        ASSERT_TRUE(Ok(tuttiCommWindowDeregister(rank.comm(), window)));
        self.Meet();
        if (in_pieces) {
          gpu.UnmapPieces(memory, pieces);
        } else {
          gpu.Free(memory);
        }
      },
      options());
}

TEST_P(DeviceMapped, AHoleIsRefused) {
  RunRanks(
      2,
      [](Rank& self) {
        DeviceRank rank(self, KiB);
        auto* const memory = rank.gpu().MapPieces(2);
        if (self.rank() == 1) rank.gpu().UnmapPiece(memory, 1);
        tuttiWindow_t window = nullptr;
        EXPECT_TRUE(Fails(tuttiCommWindowRegister(rank.comm(), memory, Gpu::kPiece + KiB, &window, TUTTI_WIN_DEFAULT),
                          tuttiInvalidArgument, {"not mapped, on rank 1"}));
        ASSERT_TRUE(Ok(tuttiCommWindowRegister(rank.comm(), memory, Gpu::kPiece, &window, TUTTI_WIN_DEFAULT)));
        ASSERT_TRUE(Ok(tuttiCommWindowDeregister(rank.comm(), window)));
        ASSERT_EQ(rank.Run({What::all_reduce, tuttiFloat32, tuttiSum, 100, 0, false, 1}), "");
        self.Meet();
        rank.gpu().UnmapPiece(memory, 0);
      },
      options());
}

// tuttiMemAlloc's memory, registered by each rank for itself: the others map it at their next calls.
TEST_P(DeviceMapped, AllocatedMemoryMayBeRegistered) {
  RunRanks(
      3,
      [](Rank& self) {
        DeviceRank rank(self, KiB);
        constexpr std::size_t kMost = 256 * KiB;
        const auto cases = MixedCases(16, kWhats, self.size(), kMost);
        for (int round = 0; round < 3; ++round) {
          Arena arena(rank.gpu(), kMost + 4 * KiB, Arena::Kind::allocated);
          self.Meet();  // a driver may make an allocation wait for kernels, and these would wait for this rank
          void *send = nullptr, *receive = nullptr;
          if (round <= self.rank()) {
            ASSERT_TRUE(Ok(tuttiCommRegister(rank.comm(), arena.send(), kMost, &send)));
            ASSERT_TRUE(Ok(tuttiCommRegister(rank.comm(), arena.receive(), kMost + 4 * KiB, &receive)));
          }
          const std::size_t own = MappedOfFakeGpu();
          for (const auto& each : cases) ASSERT_EQ(rank.Run(each, arena), "");
          if (round == 0 && Gpu::IsFake() && !self.threads() && std::getenv("TUTTI_VIRTUAL_HOSTS") == nullptr) {
            EXPECT_GE(MappedOfFakeGpu(), own + 4 * Gpu::kPiece) << "two buffers of each of two others";
          }
          self.Meet();
          for (auto* handle : {send, receive}) {
            if (handle == nullptr) continue;
            ASSERT_TRUE(Ok(tuttiCommDeregister(rank.comm(), handle)));
          }
          self.Meet();
        }
      },
      options());
}

// Threads of one process need nobody's permission.
TEST_P(DeviceMapped, MemoryThatIsNotShareableStaysInItsProcess) {
  RunRanks(
      2,
      [](Rank& self) {
        DeviceRank rank(self, KiB);
        auto* const memory = rank.gpu().MapPieces(1, self.rank() == 1);
        tuttiWindow_t window = nullptr;
        const auto result = tuttiCommWindowRegister(rank.comm(), memory, KiB, &window, TUTTI_WIN_DEFAULT);
        const bool apart = std::getenv("TUTTI_VIRTUAL_HOSTS") != nullptr;
        if (self.threads() || apart) {
          ASSERT_TRUE(Ok(result));
          ASSERT_TRUE(Ok(tuttiCommWindowDeregister(rank.comm(), window)));
        } else {
          EXPECT_TRUE(
              Fails(result, tuttiInvalidArgument, {"without a handle type", "POSIX_FILE_DESCRIPTOR", "on rank 0"}));
        }
        ASSERT_EQ(rank.Run({What::all_reduce, tuttiFloat32, tuttiSum, 100, 0, false, 1}), "");
        self.Meet();
        rank.gpu().UnmapPieces(memory, 1);
      },
      options());
}

INSTANTIATE_TEST_SUITE_P(AsThreadsAndProcesses, DeviceMapped, AllPlaces(), NameOfPlaces);

}  // namespace
}  // namespace tutti::testing
