// Litmus tests of the memory ordering that the kernels assume: a reader that has seen a flag sees the data (relaxed
// polling with one fence afterwards; one fence before the flags of all readers), no packet half is torn or taken for
// the other, no line of 128 bytes is torn (line128.h), and no slot is reused before it was read. Device code, with the library
// kernels' own primitives. One block writes and the others read, as fast as they can.
//
// Thread-safety: called by all threads of a grid of 1 + kLitmusReaders blocks, or of one grid for the writer and one for the
// readers, which may be on another device.
#pragma once

#include "executors/cuda/kernels/move.h"
#include "transports/ring/slot_arithmetic.h"

namespace tutti::testing {

inline constexpr char kLitmusName[] = "tutti_litmus";
inline constexpr std::uint32_t kLitmusDepth = 4;
inline constexpr std::uint32_t kLitmusThreads = 128;  // at most
inline constexpr std::uint32_t kLitmusReaders = 2;

struct LitmusReader {
  std::uint64_t flags[kLitmusDepth];
  std::uint32_t head;  // slots read
};

// What the slots hold: data whose flag lies elsewhere, packets, or lines of 128 bytes.
enum class LitmusWire : std::uint32_t { bulk, packets, lines };

struct LitmusLaunch {
  // kLitmusDepth of kLitmusThreads, zeroed; for packets and lines, each reader's own set, one after the other
  cuda_kernels::Vector* slots;
  LitmusReader* readers;
  std::uint32_t* wrong;  // vectors with unexpected values
  std::uint32_t* stop;   // ends everything
  std::uint32_t rounds;
  LitmusWire wire;
  bool wide;                // at system scope
  std::uint32_t first = 0;  // what the grid's first block is: 0: the writer; 1 + r: reader r
};

TUTTI_DEVICE std::uint32_t LitmusWord(std::uint32_t round, std::uint32_t thread, std::uint32_t word) {
  return static_cast<std::uint32_t>(ring::Mix((std::uint64_t{round} << 32) | (thread * 4 + word)));
}

TUTTI_DEVICE std::byte* LitmusSlot(const LitmusLaunch& launch, std::uint32_t reader, std::uint32_t slot) {
  const std::uint32_t ring = launch.wire != LitmusWire::bulk ? reader : 0;
  return reinterpret_cast<std::byte*>(launch.slots + (ring * kLitmusDepth + slot) * kLitmusThreads);
}

TUTTI_DEVICE bool LitmusHasRoom(const LitmusLaunch& launch, std::uint32_t round) {
  for (std::uint32_t r = 0; r < kLitmusReaders; ++r) {
    if (ring::FreeSlots(round, cuda_kernels::LoadPolled(&launch.readers[r].head, launch.wide), kLitmusDepth) == 0)
      return false;
  }
  return true;
}

// A thread's pairs of its line of a slot.
TUTTI_DEVICE void LitmusWriteLine(std::byte* slot, std::uint32_t round) {
  const std::uint32_t line = cuda_kernels::ThreadIndex() / cuda_kernels::kLine128Threads;
  cuda_kernels::SyncWarp();
  for (std::uint32_t p = 0; p < cuda_kernels::kPairsOfThread; ++p) {
    const std::uint32_t pair = cuda_kernels::ThreadIndex() % cuda_kernels::kLine128Threads + p;
    cuda_kernels::Vector value;
    for (std::uint32_t w = 0; w < 4; ++w)
      value.words[w] = LitmusWord(round, line * cuda_kernels::kLine128Pairs + pair, w);
    cuda_kernels::StoreLine128(slot + line * cuda_kernels::kLine128Bytes, pair, std::uint64_t{round} + 1, value);
  }
}
// Waits for them and counts the wrong words. False if told to stop.
TUTTI_DEVICE bool LitmusReadLine(const LitmusLaunch& launch, const std::byte* slot, std::uint32_t round,
                                 std::uint32_t* wrong) {
  const std::uint32_t line = cuda_kernels::ThreadIndex() / cuda_kernels::kLine128Threads;
  bool came = true;
  for (std::uint32_t p = 0; p < cuda_kernels::kPairsOfThread; ++p) {
    const std::uint32_t pair = cuda_kernels::ThreadIndex() % cuda_kernels::kLine128Threads + p;
    cuda_kernels::Vector value{};
    came = came && cuda_kernels::AwaitUntil(launch.stop, launch.stop, [&] {
             cuda_kernels::SyncWarp();
             return cuda_kernels::AllOfWarp(cuda_kernels::LoadLine128(slot + line * cuda_kernels::kLine128Bytes, pair,
                                                                      std::uint64_t{round} + 1, &value));
           });
    for (std::uint32_t w = 0; w < cuda_kernels::Line128PairData(pair) / sizeof(std::uint32_t); ++w) {
      *wrong += value.words[w] != LitmusWord(round, line * cuda_kernels::kLine128Pairs + pair, w);
    }
  }
  return came;
}

TUTTI_DEVICE bool LitmusWrite(const LitmusLaunch& launch, std::uint32_t round) {
  const std::uint32_t thread = cuda_kernels::ThreadIndex(), slot = ring::SlotIndex(round, kLitmusDepth);
  bool room = true;
  if (thread == 0) {
    room = cuda_kernels::AwaitUntil(launch.stop, launch.stop, [&] { return LitmusHasRoom(launch, round); });
    cuda_kernels::AcquirePolled(launch.wide);
  }
  if (cuda_kernels::SyncOr(!room)) return false;
  if (launch.wire == LitmusWire::lines) {
    for (std::uint32_t r = 0; r < kLitmusReaders; ++r) LitmusWriteLine(LitmusSlot(launch, r, slot), round);
    return true;
  }
  if (launch.wire == LitmusWire::packets) {
    for (std::uint32_t r = 0; r < kLitmusReaders; ++r) {
      cuda_kernels::StorePacket(LitmusSlot(launch, r, slot) + thread * cuda_kernels::kPacketBytes, round + 1,
                                LitmusWord(round, thread, 0) | std::uint64_t{LitmusWord(round, thread, 1)} << 32);
    }
    return true;
  }
  cuda_kernels::Vector value;
  for (std::uint32_t w = 0; w < 4; ++w) value.words[w] = LitmusWord(round, thread, w);
  cuda_kernels::StoreGlobal(LitmusSlot(launch, 0, slot) + thread * cuda_kernels::kVectorBytes, value);
  cuda_kernels::Sync();
  // Not the thread that waited, as in the kernels' interpreter.
  if (thread == cuda_kernels::ThreadCount() - 1) {
    cuda_kernels::ReleaseStores(launch.wide);
    for (std::uint32_t r = 0; r < kLitmusReaders; ++r) {
      cuda_kernels::StoreReleased(&launch.readers[r].flags[slot], std::uint64_t{round} + 1);
    }
  }
  return true;
}

TUTTI_DEVICE bool LitmusRead(const LitmusLaunch& launch, std::uint32_t reader, std::uint32_t round) {
  const std::uint32_t thread = cuda_kernels::ThreadIndex(), slot = ring::SlotIndex(round, kLitmusDepth);
  const std::byte* const at = LitmusSlot(launch, reader, slot);
  LitmusReader& self = launch.readers[reader];
  std::uint32_t wrong = 0;
  bool came = true;
  if (launch.wire == LitmusWire::lines) {
    came = LitmusReadLine(launch, at, round, &wrong);
    if (cuda_kernels::SyncOr(!came)) return false;
  } else if (launch.wire == LitmusWire::packets) {
    std::uint64_t data = 0;
    came = cuda_kernels::AwaitUntil(launch.stop, launch.stop, [&] {
      return cuda_kernels::LoadPacket(at + thread * cuda_kernels::kPacketBytes, round + 1, &data);
    });
    wrong = data != (LitmusWord(round, thread, 0) | std::uint64_t{LitmusWord(round, thread, 1)} << 32);
    if (cuda_kernels::SyncOr(!came)) return false;
  } else {
    if (thread == 0) {
      came = cuda_kernels::AwaitUntil(launch.stop, launch.stop, [&] {
        return cuda_kernels::LoadPolled(&self.flags[slot], launch.wide) == std::uint64_t{round} + 1;
      });
      cuda_kernels::AcquirePolled(launch.wide);
    }
    if (cuda_kernels::SyncOr(!came)) return false;
    const auto value = cuda_kernels::LoadGlobal<cuda_kernels::Vector>(at + thread * cuda_kernels::kVectorBytes);
    for (std::uint32_t w = 0; w < 4; ++w) wrong += value.words[w] != LitmusWord(round, thread, w);
    cuda_kernels::Sync();
  }
  if (wrong != 0) cuda_kernels::GpuAtomic<std::uint32_t>(*launch.wrong).fetch_add(1, cuda_kernels::kRelaxed);
  if (thread != cuda_kernels::ThreadCount() - 1) return true;
  if (launch.wire != LitmusWire::bulk) {
    cuda_kernels::StoreRelaxed(&self.head, round + 1);
  } else {
    cuda_kernels::ReleaseStores(launch.wide);
    cuda_kernels::StoreReleased(&self.head, round + 1);
  }
  return true;
}

TUTTI_DEVICE void Litmus(const LitmusLaunch& launch) {
  for (std::uint32_t round = 0; round < launch.rounds; ++round) {
    const std::uint32_t role = launch.first + cuda_kernels::BlockIndex();
    const bool goes_on = role == 0 ? LitmusWrite(launch, round) : LitmusRead(launch, role - 1, round);
    if (!goes_on) return;
  }
}

}  // namespace tutti::testing
