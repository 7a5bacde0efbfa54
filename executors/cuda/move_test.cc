// The data path of the kernels, by their twins: the same source with ordinary threads, against the reference that the
// host's kernels are tested with, bit by bit.
#include "executors/cuda/move.h"

#include <thread>

#include "executors/host/reduce_reference.h"

namespace tutti {
namespace {

// Runs `part` as every thread of one block.
template <typename Part>
void RunBlock(std::uint32_t threads, Part part) {
  std::barrier<> barrier(threads);
  std::vector<std::thread> running;
  for (std::uint32_t t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      const TwinThread self{.thread = t, .threads = threads, .barrier = &barrier};
      this_twin = &self;
      part();
    });
  }
  for (auto& thread : running) thread.join();
}

struct Arithmetic {
  tuttiRedOp_t op = tuttiSum;
  std::uint64_t scaled = 0;
  Scalar scalar = {};
  int divisor = 0;
};

Move MoveOf(tuttiDataType_t type, const Arithmetic& arithmetic, const std::vector<const void*>& sources,
            std::size_t count) {
  static const std::uint32_t kGoOn = 0;
  Move move{};
  for (const void* source : sources) move.sources[move.source_count++] = static_cast<const std::byte*>(source);
  move.bytes = count * SizeOf(type);
  move.stop = move.abort = &kGoOn;
  move.reducer = ReducerOf(type, arithmetic.op);
  move.arithmetic = true;
  move.scaled = arithmetic.scaled;
  std::memcpy(&move.scalar, arithmetic.scalar.bytes.data(), sizeof move.scalar);
  move.divisor = arithmetic.divisor;
  return move;
}

void ExpectReduced(tuttiDataType_t type, const Arithmetic& arithmetic, Sources& sources, std::size_t count,
                   std::size_t offset_elements) {
  const auto expected = Reference(type, arithmetic.op, sources.pointers(), count, arithmetic.scalar,
                                  {arithmetic.scaled, arithmetic.divisor});
  Destination one(expected.size(), offset_elements * SizeOf(type)), two(expected.size(), 0);
  Move move = MoveOf(type, arithmetic, sources.pointers(), count);
  move.destinations[0] = static_cast<std::byte*>(one.data());
  move.destinations[1] = static_cast<std::byte*>(two.data());
  move.destination_count = 2;
  RunBlock(3, [&] { EXPECT_TRUE(Reduce(move)); });
  for (const auto* destination : {&one, &two}) {
    EXPECT_TRUE(destination->GuardsIntact());
    EXPECT_EQ(std::memcmp(const_cast<Destination*>(destination)->data(), expected.data(), expected.size()), 0)
        << NameOf(type) << " " << NameOf(arithmetic.op) << ", " << sources.pointers().size() << " sources, " << count;
  }
}

TEST(DeviceMove, ReducesAsTheHostDoes) {
  for (int type = 0; type < tuttiNumTypes; ++type) {
    const auto t = static_cast<tuttiDataType_t>(type);
    for (const int count : {1, 2, 5}) {
      Sources sources(t, count, static_cast<std::uint64_t>(type * 8 + count));
      for (const auto op : kOps) {
        for (const std::size_t elements : {std::size_t{1}, std::size_t{100}, kMaxCount}) {
          ExpectReduced(t, {op}, sources, elements, 1);
        }
      }
      ExpectReduced(t, {tuttiSum, 0, {}, 3}, sources, kMaxCount, 0);
      const auto factor = Scalar::From(sources.pointers()[0], SizeOf(t));
      ExpectReduced(t, {tuttiSum, 0b10101 & ((1U << count) - 1), factor, 0}, sources, kMaxCount, 0);
    }
  }
}

// As slots and buffers from an allocator are.
TEST(DeviceMove, ReducesAlignedVectors) {
  constexpr std::size_t kBytes = 3 * 512 * kVectorBytes + 13 * 8;
  for (int type = 0; type < tuttiNumTypes; ++type) {
    const auto t = static_cast<tuttiDataType_t>(type);
    const std::size_t count = kBytes / SizeOf(t);
    std::mt19937_64 random(static_cast<std::uint64_t>(type));
    std::vector<std::vector<Vector>> memory(4, std::vector<Vector>(kBytes / kVectorBytes + 1));
    std::vector<const void*> sources;
    for (std::size_t s = 0; s < 3; ++s) {
      Fill(t, reinterpret_cast<std::byte*>(memory[s].data()), count, random);
      sources.push_back(memory[s].data());
    }
    for (const auto op : kOps) {
      const auto expected = Reference(t, op, sources, count);
      Move move = MoveOf(t, {op}, sources, count);
      move.destinations[move.destination_count++] = reinterpret_cast<std::byte*>(memory[3].data());
      RunBlock(4, [&] { EXPECT_TRUE(Reduce(move)); });
      EXPECT_EQ(std::memcmp(memory[3].data(), expected.data(), expected.size()), 0) << NameOf(t) << " " << NameOf(op);
    }
  }
}

// A sender and a receiver at the same time: what one packs the other adds to its own.
TEST(DeviceMove, PacketsCarryNumbersThatOnlyTheirReaderTakes) {
  for (const std::size_t count : {1, 2, 3, 250, 251}) {
    const auto type = tuttiInt32;
    std::mt19937_64 random(count);
    std::vector<std::int32_t> sent(count), own(count), got(count);
    Fill(type, reinterpret_cast<std::byte*>(sent.data()), count, random);
    Fill(type, reinterpret_cast<std::byte*>(own.data()), count, random);
    const auto expected = Reference(type, tuttiSum, {sent.data(), own.data()}, count);
    std::vector<Vector> slot(PacketSlotBytes(count * sizeof(std::int32_t)) / kPacketBytes);
    auto* const packets = reinterpret_cast<std::byte*>(slot.data());
    constexpr std::uint32_t kNumber = 7;

    Move send = MoveOf(type, {}, {sent.data()}, count);
    send.arithmetic = false;
    send.packets = true;
    send.destinations[0] = packets;
    send.destination_numbers[0] = kNumber;
    send.destination_count = 1;
    Move receive = MoveOf(type, {}, {packets, own.data()}, count);
    receive.packets = true;
    receive.source_numbers[0] = kNumber;
    receive.destinations[0] = reinterpret_cast<std::byte*>(got.data());
    receive.destination_count = 1;
    std::thread receiver([&] { RunBlock(3, [&] { EXPECT_TRUE(Reduce(receive)); }); });
    RunBlock(2, [&] { EXPECT_TRUE(Copy(send)); });
    receiver.join();
    EXPECT_EQ(std::memcmp(got.data(), expected.data(), expected.size()), 0) << count;
    std::uint64_t data = 0;
    EXPECT_FALSE(LoadPacket(packets, kNumber + 1, &data)) << "another slot's number is not taken";
  }
}

TEST(DeviceMove, WaitingForAPacketEndsWhenToldToStop) {
  std::vector<Vector> slot(2);
  const std::uint32_t stop = 1, abort = 0;
  std::int32_t got = 0;
  Move move = MoveOf(tuttiInt32, {}, {slot.data()}, 1);
  move.packets = true;
  move.stop = &stop;
  move.abort = &abort;
  move.source_numbers[0] = 1;
  move.destinations[0] = reinterpret_cast<std::byte*>(&got);
  move.destination_count = 1;
  RunBlock(1, [&] { EXPECT_FALSE(Copy(move)); });
}

TEST(DeviceMove, CopiesAtAnyAlignment) {
  std::mt19937_64 random(1);
  for (const std::size_t bytes : {0, 1, 15, 16, 64, 1000, 100'000}) {
    for (const std::size_t from : {0, 1, 4}) {
      for (const std::size_t to : {0, 4, 7}) {
        std::vector<Vector> memory(bytes / kVectorBytes + 2), copy(memory.size());
        auto* const source = reinterpret_cast<std::byte*>(memory.data()) + from;
        Fill(tuttiInt8, source, bytes, random);
        Move move = MoveOf(tuttiInt8, {}, {source}, bytes);
        move.arithmetic = false;
        move.destinations[0] = reinterpret_cast<std::byte*>(copy.data()) + to;
        move.destination_count = 1;
        RunBlock(2, [&] { EXPECT_TRUE(Copy(move)); });
        EXPECT_EQ(std::memcmp(move.destinations[0], source, bytes), 0) << bytes << " from " << from << " to " << to;
      }
    }
  }
}

}  // namespace
}  // namespace tutti
