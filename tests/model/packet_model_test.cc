// The GPU's line protocol, modeled on the host: packets of 16 bytes, with the slot's number in each half. Both halves
// are relaxed (a GPU's 16-byte store is only two atomic halves, see executors/cuda/kernels/packet.h), and no fence
// orders them. The reader's count orders the slot's reuse. tests/gpu/litmus.h tests the device code itself on GPUs.
#include <gtest/gtest.h>

#include "tests/model/checker.h"
#include "transports/ring/slot_arithmetic.h"

namespace tutti::model {
namespace {

struct Packet {
  std::atomic<std::uint64_t> low{0}, high{0};
};

struct Line {
  explicit Line(std::uint32_t depth) : packets(new Packet[depth]), depth(depth) {}

  Packet* packets;
  std::uint32_t depth;
  std::atomic<std::uint32_t>* head = new std::atomic<std::uint32_t>(0);
};

void StorePacket(Packet& packet, std::uint32_t number, std::uint64_t data) {
  const std::uint64_t flag = std::uint64_t{number} << 32;
  packet.low.store(flag | (data & 0xffff'ffff), std::memory_order_relaxed);
  packet.high.store(flag | data >> 32, std::memory_order_relaxed);
}

bool LoadPacket(const Packet& packet, std::uint32_t number, bool both, std::uint64_t& data) {
  const auto low = packet.low.load(std::memory_order_relaxed), high = packet.high.load(std::memory_order_relaxed);
  if (low >> 32 != number || (both && high >> 32 != number)) return false;
  data = (low & 0xffff'ffff) | high << 32;
  return true;
}

std::uint64_t DataOf(std::uint32_t number) { return (number * std::uint64_t{7} << 32) | number * 5; }

// `both`: the reader checks both halves' numbers. `waits`: the writer waits for room.
Result Packets(std::uint32_t depth, std::uint32_t count, bool both, bool waits) {
  return Explore([=] {
    const Line line(depth);
    return Program{{[=] {
                      for (std::uint32_t n = 1; n <= count; ++n) {
                        const auto room = [&] {
                          return ring::FreeSlots(n - 1, line.head->load(std::memory_order_acquire), depth) > 0;
                        };
                        if (waits) Await(room);
                        StorePacket(line.packets[ring::SlotIndex(n - 1, depth)], n, DataOf(n));
                      }
                    },
                    [=] {
                      for (std::uint32_t n = 1; n <= count; ++n) {
                        std::uint64_t data = 0;
                        Await([&] { return LoadPacket(line.packets[ring::SlotIndex(n - 1, depth)], n, both, data); });
                        Require(data == DataOf(n), "a packet is whole");
                        line.head->store(n, std::memory_order_release);
                      }
                    }},
                   nullptr};
  });
}

TEST(PacketModel, PacketsAreWhole) {
  EXPECT_EQ(Packets(1, 4, true, true).failure, "");
  EXPECT_EQ(Packets(2, 5, true, true).failure, "");
}

TEST(PacketModel, BothHalvesSayTheirNumber) {
  EXPECT_NE(Packets(2, 2, false, true).failure.find("whole"), std::string::npos);
}

TEST(PacketModel, WriterMustAwaitRoom) { EXPECT_NE(Packets(1, 2, true, false).failure, ""); }

}  // namespace
}  // namespace tutti::model
