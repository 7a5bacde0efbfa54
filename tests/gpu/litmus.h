// Litmus tests of the memory ordering that the kernels assume: a reader that has seen a flag sees the data (relaxed
// polling with one fence afterwards; one fence before the flags of all readers), no packet half is torn or taken for
// the other, and no slot is reused before it was read. Device code, with the library kernels' own primitives. Block 0
// writes and the others read, as fast as they can.
//
// Thread-safety: called by all threads of a grid of 1 + kLitmusReaders blocks.
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

struct LitmusLaunch {
  Vector* slots;  // kLitmusDepth of kLitmusThreads, zeroed; for packets, each reader's own set, one after the other
  LitmusReader* readers;
  std::uint32_t* wrong;  // vectors with unexpected values
  std::uint32_t* stop;   // ends everything
  std::uint32_t rounds;
  bool packets;  // line wire, otherwise bulk
  bool wide;     // at system scope
};

TUTTI_DEVICE std::uint32_t LitmusWord(std::uint32_t round, std::uint32_t thread, std::uint32_t word) {
  return static_cast<std::uint32_t>(Mix((std::uint64_t{round} << 32) | (thread * 4 + word)));
}

TUTTI_DEVICE std::byte* LitmusSlot(const LitmusLaunch& launch, std::uint32_t reader, std::uint32_t slot) {
  const std::uint32_t ring = launch.packets ? reader : 0;
  return reinterpret_cast<std::byte*>(launch.slots + (ring * kLitmusDepth + slot) * kLitmusThreads);
}

TUTTI_DEVICE bool LitmusHasRoom(const LitmusLaunch& launch, std::uint32_t round) {
  for (std::uint32_t r = 0; r < kLitmusReaders; ++r) {
    if (FreeSlots(round, LoadPolled(&launch.readers[r].head, launch.wide), kLitmusDepth) == 0) return false;
  }
  return true;
}

TUTTI_DEVICE bool LitmusWrite(const LitmusLaunch& launch, std::uint32_t round) {
  const std::uint32_t thread = ThreadIndex(), slot = SlotIndex(round, kLitmusDepth);
  bool room = true;
  if (thread == 0) {
    room = AwaitUntil(launch.stop, launch.stop, [&] { return LitmusHasRoom(launch, round); });
    AcquirePolled(launch.wide);
  }
  if (SyncOr(!room)) return false;
  if (launch.packets) {
    for (std::uint32_t r = 0; r < kLitmusReaders; ++r) {
      StorePacket(LitmusSlot(launch, r, slot) + thread * kPacketBytes, round + 1,
                  LitmusWord(round, thread, 0) | std::uint64_t{LitmusWord(round, thread, 1)} << 32);
    }
    return true;
  }
  Vector value;
  for (std::uint32_t w = 0; w < 4; ++w) value.words[w] = LitmusWord(round, thread, w);
  StoreGlobal(LitmusSlot(launch, 0, slot) + thread * kVectorBytes, value);
  Sync();
  // Not the thread that waited, as in the kernels' interpreter.
  if (thread == ThreadCount() - 1) {
    ReleaseStores(launch.wide);
    for (std::uint32_t r = 0; r < kLitmusReaders; ++r) {
      StoreReleased(&launch.readers[r].flags[slot], std::uint64_t{round} + 1);
    }
  }
  return true;
}

TUTTI_DEVICE bool LitmusRead(const LitmusLaunch& launch, std::uint32_t reader, std::uint32_t round) {
  const std::uint32_t thread = ThreadIndex(), slot = SlotIndex(round, kLitmusDepth);
  const std::byte* const at = LitmusSlot(launch, reader, slot);
  LitmusReader& self = launch.readers[reader];
  std::uint32_t wrong = 0;
  bool came = true;
  if (launch.packets) {
    std::uint64_t data = 0;
    came =
        AwaitUntil(launch.stop, launch.stop, [&] { return LoadPacket(at + thread * kPacketBytes, round + 1, &data); });
    wrong = data != (LitmusWord(round, thread, 0) | std::uint64_t{LitmusWord(round, thread, 1)} << 32);
    if (SyncOr(!came)) return false;
  } else {
    if (thread == 0) {
      came = AwaitUntil(launch.stop, launch.stop,
                        [&] { return LoadPolled(&self.flags[slot], launch.wide) == std::uint64_t{round} + 1; });
      AcquirePolled(launch.wide);
    }
    if (SyncOr(!came)) return false;
    const auto value = LoadGlobal<Vector>(at + thread * kVectorBytes);
    for (std::uint32_t w = 0; w < 4; ++w) wrong += value.words[w] != LitmusWord(round, thread, w);
    Sync();
  }
  if (wrong != 0) GpuAtomic<std::uint32_t>(*launch.wrong).fetch_add(1, kRelaxed);
  if (thread != ThreadCount() - 1) return true;
  if (launch.packets) {
    StoreRelaxed(&self.head, round + 1);
  } else {
    ReleaseStores(launch.wide);
    StoreReleased(&self.head, round + 1);
  }
  return true;
}

TUTTI_DEVICE void Litmus(const LitmusLaunch& launch) {
  for (std::uint32_t round = 0; round < launch.rounds; ++round) {
    const bool goes_on = BlockIndex() == 0 ? LitmusWrite(launch, round) : LitmusRead(launch, BlockIndex() - 1, round);
    if (!goes_on) return;
  }
}

}  // namespace tutti::testing
