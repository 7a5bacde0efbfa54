// Compares the kernels' data path, run by host kernels (the same source on ordinary threads), bit by bit with the
// reference that the host's kernels are tested against.
#include "executors/cuda/kernels/move_testing.h"

namespace tutti::cuda_kernels {
namespace {

void ExpectReduced(tuttiDataType_t type, const Arithmetic& arithmetic, host_kernels::Sources& sources,
                   std::size_t count, std::size_t offset_elements) {
  const auto expected = host_kernels::Reference(type, arithmetic.op, sources.pointers(), count, arithmetic.scalar,
                                                {arithmetic.scaled, arithmetic.divisor});
  host_kernels::Destination one(expected.size(), offset_elements * SizeOf(type)), two(expected.size(), 0);
  Move move = MoveOf(type, arithmetic, sources.pointers(), count);
  move.destinations[0] = static_cast<std::byte*>(one.data());
  move.destinations[1] = static_cast<std::byte*>(two.data());
  move.destination_count = 2;
  RunBlock(3, [&] { EXPECT_TRUE(Reduce(move)); });
  for (const auto* destination : {&one, &two}) {
    EXPECT_TRUE(destination->GuardsIntact());
    EXPECT_EQ(
        std::memcmp(const_cast<host_kernels::Destination*>(destination)->data(), expected.data(), expected.size()), 0)
        << NameOf(type) << " " << NameOf(arithmetic.op) << ", " << sources.pointers().size() << " sources, " << count;
  }
}

template <typename Format>
void ExpectDecodedByHalf() {
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    const float expected = ToFloat<Format>(byte), got = DecodeByHalf<Format>(byte);
    if (expected != expected) {
      EXPECT_NE(got, got) << code;
    } else {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(expected)) << code;
    }
  }
}

TEST(DeviceElement, Float8IsDecodedAlikeWithoutInstructionsForIt) {
  ExpectDecodedByHalf<Float8E4M3>();
  ExpectDecodedByHalf<Float8E5M2>();
}

TEST(DeviceMove, ReducesAsTheHostDoes) {
  for (int type = 0; type < tuttiNumTypes; ++type) {
    const auto t = static_cast<tuttiDataType_t>(type);
    for (const int count : {1, 2, 5}) {
      host_kernels::Sources sources(t, count, static_cast<std::uint64_t>(type * 8 + count));
      for (const auto op : host_kernels::kOps) {
        for (const std::size_t elements : {std::size_t{1}, std::size_t{100}, host_kernels::kMaxCount}) {
          ExpectReduced(t, {op}, sources, elements, 1);
        }
      }
      ExpectReduced(t, {tuttiSum, 0, {}, 3}, sources, host_kernels::kMaxCount, 0);
      const auto factor = host_kernels::Scalar::From(sources.pointers()[0], SizeOf(t));
      ExpectReduced(t, {tuttiSum, 0b10101 & ((1U << count) - 1), factor, 0}, sources, host_kernels::kMaxCount, 0);
    }
  }
}

// Slots and buffers from an allocator are aligned like this.
TEST(DeviceMove, ReducesAlignedVectors) {
  constexpr std::size_t kBytes = 3 * 512 * kVectorBytes + 13 * 8;
  for (int type = 0; type < tuttiNumTypes; ++type) {
    const auto t = static_cast<tuttiDataType_t>(type);
    const std::size_t count = kBytes / SizeOf(t);
    std::mt19937_64 random(static_cast<std::uint64_t>(type));
    std::vector<std::vector<Vector>> memory(4, std::vector<Vector>(kBytes / kVectorBytes + 1));
    std::vector<const void*> sources;
    for (std::size_t s = 0; s < 3; ++s) {
      host_kernels::Fill(t, reinterpret_cast<std::byte*>(memory[s].data()), count, random);
      sources.push_back(memory[s].data());
    }
    for (const auto op : host_kernels::kOps) {
      const auto expected = host_kernels::Reference(t, op, sources, count);
      Move move = MoveOf(t, {op}, sources, count);
      move.destinations[move.destination_count++] = reinterpret_cast<std::byte*>(memory[3].data());
      RunBlock(4, [&] { EXPECT_TRUE(Reduce(move)); });
      EXPECT_EQ(std::memcmp(memory[3].data(), expected.data(), expected.size()), 0) << NameOf(t) << " " << NameOf(op);
    }
  }
}

// Every element is moved by exactly one of them.
TEST(DeviceMove, BlocksShareAMove) {
  const auto type = tuttiInt32;
  for (const std::uint32_t blocks : {2, 5}) {
    for (const std::size_t count : {1, 50, 4000, 20'001}) {
      for (const std::size_t offset : {0, 1}) {  // elements past a multiple of a vector
        std::vector<Vector> memory(3 * (count / 4 + 2));
        auto* const first = reinterpret_cast<std::int32_t*>(memory.data());
        const std::size_t stride = (count / 4 + 2) * 4;
        std::mt19937_64 random(count);
        for (const std::size_t s : {0, 1}) {
          host_kernels::Fill(type, reinterpret_cast<std::byte*>(first + s * stride + offset), count, random);
        }
        const std::vector<const void*> sources{first + offset, first + stride + offset};
        for (const bool reduces : {true, false}) {
          const auto expected = reduces ? host_kernels::Reference(type, tuttiSum, sources, count)
                                        : host_kernels::Reference(type, tuttiSum, {sources[0]}, count);
          Move move = MoveOf(type, {}, sources, count);
          std::int32_t* const result = first + 2 * stride + offset;
          move.destinations[move.destination_count++] = reinterpret_cast<std::byte*>(result);
          std::fill_n(result, count, 0);
          for (std::uint32_t block = 0; block < blocks; ++block) {
            move.share = {block, blocks - 1};
            std::vector<std::int32_t> before(result, result + count);
            RunBlock(3, [&] { EXPECT_TRUE(reduces ? Reduce(move) : Copy<Dense>(move)); });
            // No block writes what an earlier one has written.
            for (std::size_t i = 0; i < count; ++i) ASSERT_TRUE(before[i] == 0 || before[i] == result[i]) << i;
          }
          EXPECT_EQ(std::memcmp(result, expected.data(), expected.size()), 0) << blocks << " blocks, " << count;
        }
      }
    }
  }
}

// A sender and a receiver run at the same time: the receiver adds the packets to its own data.
TEST(DeviceMove, PacketsCarryNumbersThatOnlyTheirReaderTakes) {
  for (const std::size_t count : {1, 2, 3, 250, 251}) {
    const auto type = tuttiInt32;
    std::mt19937_64 random(count);
    std::vector<std::int32_t> sent(count), own(count), got(count);
    host_kernels::Fill(type, reinterpret_cast<std::byte*>(sent.data()), count, random);
    host_kernels::Fill(type, reinterpret_cast<std::byte*>(own.data()), count, random);
    const auto expected = host_kernels::Reference(type, tuttiSum, {sent.data(), own.data()}, count);
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
    RunBlock(2, [&] { EXPECT_TRUE(Copy<Dense>(send)); });
    receiver.join();
    EXPECT_EQ(std::memcmp(got.data(), expected.data(), expected.size()), 0) << count;
    std::uint64_t data = 0;
    EXPECT_FALSE(LoadPacket(packets, PacketNumber(kNumber + 1), &data)) << "another slot's number is not taken";
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
  RunBlock(1, [&] { EXPECT_FALSE(Copy<Dense>(move)); });
}

std::vector<std::byte*> Data(std::vector<host_kernels::Destination>& memory) {
  std::vector<std::byte*> data;
  for (auto& each : memory) data.push_back(static_cast<std::byte*>(each.data()));
  return data;
}

void ExpectEverywhere(const std::vector<host_kernels::Destination>& memory, const std::vector<std::byte*>& data,
                      const std::vector<std::byte>& expected, const std::string& what) {
  for (std::size_t d = 0; d < memory.size(); ++d) {
    EXPECT_TRUE(memory[d].GuardsIntact()) << what << ", destination " << d;
    EXPECT_EQ(std::memcmp(data[d], expected.data(), expected.size()), 0) << what << ", destination " << d;
  }
}

// Copies a block's worth from one misalignment to others.
void ExpectCopied(std::size_t from, const std::vector<std::size_t>& to, std::size_t bytes) {
  constexpr std::uint32_t kThreads = 2;
  std::mt19937_64 random(bytes + from);
  std::vector<std::byte> expected(bytes);
  host_kernels::Fill(tuttiInt8, expected.data(), bytes, random);
  host_kernels::Destination source(bytes, from);
  std::memcpy(source.data(), expected.data(), bytes);
  std::vector<host_kernels::Destination> memory;
  for (const auto misalignment : to) memory.emplace_back(bytes, misalignment);
  const auto data = Data(memory);
  Move move = MoveOf(tuttiInt8, {}, {source.data()}, bytes);
  move.arithmetic = false;
  for (auto* const destination : data) move.destinations[move.destination_count++] = destination;
  RunBlock(kThreads, [&] { EXPECT_TRUE(Copy<Dense>(move)); });
  ExpectEverywhere(memory, data, expected, std::to_string(bytes) + " bytes from " + std::to_string(from));
}

TEST(DeviceMove, CopiesAtAnyAlignment) {
  constexpr std::size_t kBatch = 2 * kCopiesInFlight;  // units that two threads take at a time
  for (const std::size_t unit : {1, 2, 4, 16}) {
    for (const std::size_t units : {std::size_t{0}, std::size_t{1}, kBatch - 1, kBatch, kBatch + 1, 3 * kBatch + 1}) {
      for (std::size_t from = 0; from < kVectorBytes; ++from) {
        const std::size_t bytes = units * unit + from % 3;
        const std::size_t other = (from + unit) % kVectorBytes;  // equal modulo the unit
        ExpectCopied(from, {other}, bytes);
        ExpectCopied(from, {from, other, from}, bytes);
      }
    }
  }
  ExpectCopied(0, {0, 0}, 100'000);
  ExpectCopied(1, {7}, 100'000);
}

struct Placement {
  std::vector<std::size_t> sources, destinations;  // bytes past a multiple of a vector's size
  bool in_place = false;                           // the first source is also a destination
};

void ExpectReducedAt(tuttiDataType_t type, const Arithmetic& arithmetic, const Placement& placement,
                     std::size_t count) {
  constexpr std::uint32_t kThreads = 3;
  const std::size_t bytes = count * SizeOf(type);
  std::mt19937_64 random(count);
  std::vector<host_kernels::Destination> sources, destinations;
  for (const auto misalignment : placement.sources) sources.emplace_back(bytes, misalignment);
  for (const auto misalignment : placement.destinations) destinations.emplace_back(bytes, misalignment);
  const auto from = Data(sources);
  const auto to = Data(destinations);
  for (auto* const source : from) host_kernels::Fill(type, source, count, random);
  const std::vector<const void*> pointers(from.begin(), from.end());
  const auto expected = host_kernels::Reference(type, arithmetic.op, pointers, count, arithmetic.scalar,
                                                {arithmetic.scaled, arithmetic.divisor});
  Move move = MoveOf(type, arithmetic, pointers, count);
  for (auto* const destination : to) move.destinations[move.destination_count++] = destination;
  if (placement.in_place) move.destinations[move.destination_count++] = from[0];
  RunBlock(kThreads, [&] { EXPECT_TRUE(Reduce(move)); });
  const std::string what = std::string(NameOf(type)) + " " + std::string(NameOf(arithmetic.op)) + ", " +
                           std::to_string(pointers.size()) + " sources, " + std::to_string(count) + " elements";
  ExpectEverywhere(destinations, to, expected, what);
  for (const auto& source : sources) EXPECT_TRUE(source.GuardsIntact()) << what;
  if (placement.in_place) {
    EXPECT_EQ(std::memcmp(from[0], expected.data(), bytes), 0) << what << ", in place";
  }
}

// Every alignment of an element, equal and different ones; lengths around what three threads take at a time (two or
// four vectors each), with elements before and after the vectors.
TEST(DeviceMove, ReducesAtAnyAlignment) {
  for (const auto type : {tuttiInt8, tuttiBfloat16, tuttiFloat32, tuttiFloat64}) {
    const std::size_t size = SizeOf(type);
    for (std::size_t offset = 0; offset < kVectorBytes; offset += size) {
      const std::size_t next = (offset + size) % kVectorBytes;
      for (const std::size_t vectors : {0, 1, 5, 6, 7, 11, 12, 13, 25}) {
        for (const std::size_t more : {0, 1}) {
          const std::size_t count = vectors * kVectorBytes / size + more;
          ExpectReducedAt(type, {}, {{offset, offset}, {offset, offset}}, count);
          ExpectReducedAt(type, {}, {{offset, offset, offset}, {}, true}, count);
          ExpectReducedAt(type, {}, {{offset, next, offset}, {next}, true}, count);
        }
      }
    }
  }
}

TEST(DeviceMove, AddsSourcesInOrderHoweverManyThereAre) {
  constexpr std::size_t kBytes = 27 * kVectorBytes + 8;
  constexpr std::size_t kMostSources = 9;
  for (int t = 0; t < tuttiNumTypes; ++t) {
    const auto type = static_cast<tuttiDataType_t>(t);
    const std::size_t count = kBytes / SizeOf(type);
    host_kernels::Scalar factor;
    std::mt19937_64 random(static_cast<std::uint64_t>(t));
    host_kernels::Fill(type, factor.bytes.data(), 1, random);
    for (std::size_t sources = 1; sources <= kMostSources; ++sources) {
      Placement alike{std::vector<std::size_t>(sources, 8), {8, 8, 8}};
      Placement different{{}, {0, 8}};
      for (std::size_t s = 0; s < sources; ++s) different.sources.push_back(s * SizeOf(type) % kVectorBytes);
      const std::uint64_t every_other = 0b1'0101'0101 & ((1U << sources) - 1);
      for (const auto& placement : {alike, different}) {
        for (const auto op : host_kernels::kOps) ExpectReducedAt(type, {op}, placement, count);
        ExpectReducedAt(type, {tuttiSum, every_other, factor, 0}, placement, count);
        ExpectReducedAt(type, {tuttiSum, 0, {}, 3}, placement, count);
      }
    }
  }
}

}  // namespace
}  // namespace tutti::cuda_kernels
