// Litmus tests of what the kernels take for granted: that a reader who has seen a flag sees the data, that a packet is
// never torn, that a slot is not used again before it was read. Device code, with the primitives of the library's own
// kernels; block 0 writes, block 1 reads, as fast as they can.
//
// Thread-safety: called by all threads of a grid of two blocks.
#pragma once

#include "executors/cuda/move.h"
#include "transports/slot_arithmetic.h"

namespace tutti::testing {

inline constexpr char kLitmusName[] = "tutti_litmus";
inline constexpr std::uint32_t kLitmusDepth = 4;
inline constexpr std::uint32_t kLitmusThreads = 128;  // at most

struct LitmusLaunch {
  Vector* slots;         // kLitmusDepth of kLitmusThreads, zeroed
  std::uint64_t* flags;  // kLitmusDepth
  std::uint32_t* head;   // slots read
  std::uint32_t* wrong;  // vectors that were not what they should be
  std::uint32_t* stop;   // ends everything
  std::uint32_t rounds;
  bool packets;  // line wire, otherwise bulk
  bool wide;     // at system scope
};

TUTTI_DEVICE std::uint32_t LitmusWord(std::uint32_t round, std::uint32_t thread, std::uint32_t word) {
  return static_cast<std::uint32_t>(Mix((std::uint64_t{round} << 32) | (thread * 4 + word)));
}

TUTTI_DEVICE bool LitmusWrite(const LitmusLaunch& launch, std::uint32_t round) {
  const std::uint32_t thread = ThreadIndex(), slot = SlotIndex(round, kLitmusDepth);
  bool room = true;
  if (thread == 0) {
    room = AwaitUntil(launch.stop, launch.stop,
                      [&] { return FreeSlots(round, LoadAcquire(launch.head, launch.wide), kLitmusDepth) > 0; });
  }
  if (SyncOr(!room)) return false;
  auto* const at = reinterpret_cast<std::byte*>(launch.slots + slot * kLitmusThreads);
  if (launch.packets) {
    StorePacket(at + thread * kPacketBytes, round + 1,
                LitmusWord(round, thread, 0) | std::uint64_t{LitmusWord(round, thread, 1)} << 32);
    return true;
  }
  Vector value;
  for (std::uint32_t w = 0; w < 4; ++w) value.words[w] = LitmusWord(round, thread, w);
  StoreVector(at, thread, value);
  Sync();
  if (thread == 0) StoreRelease(launch.flags + slot, std::uint64_t{round} + 1, launch.wide);
  return true;
}

TUTTI_DEVICE bool LitmusRead(const LitmusLaunch& launch, std::uint32_t round) {
  const std::uint32_t thread = ThreadIndex(), slot = SlotIndex(round, kLitmusDepth);
  const auto* const at = reinterpret_cast<const std::byte*>(launch.slots + slot * kLitmusThreads);
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
                        [&] { return LoadAcquire(launch.flags + slot, launch.wide) == std::uint64_t{round} + 1; });
    }
    if (SyncOr(!came)) return false;
    const Vector value = LoadVector(at, thread);
    for (std::uint32_t w = 0; w < 4; ++w) wrong += value.words[w] != LitmusWord(round, thread, w);
    Sync();
  }
  if (wrong != 0) GpuAtomic<std::uint32_t>(*launch.wrong).fetch_add(1, kRelaxed);
  if (thread != 0) return true;
  if (launch.packets) {
    StoreRelaxed(launch.head, round + 1);
  } else {
    StoreRelease(launch.head, round + 1, launch.wide);
  }
  return true;
}

TUTTI_DEVICE void Litmus(const LitmusLaunch& launch) {
  for (std::uint32_t round = 0; round < launch.rounds; ++round) {
    if (!(BlockIndex() == 0 ? LitmusWrite(launch, round) : LitmusRead(launch, round))) return;
  }
}

}  // namespace tutti::testing
