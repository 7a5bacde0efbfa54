// Compares steps with strided operands, run by host kernels, bit by bit with the same steps on packed bytes, for any
// layouts, alignments and mixtures with dense operands.
#include <optional>
#include <random>

#include "executors/cuda/kernels/move_testing.h"
#include "testing/surroundings.h"

namespace tutti::cuda_kernels {
namespace {

constexpr std::uint32_t kThreads = 3;

// `count` elements of `size` bytes, strided or contiguous, in memory with room around.
class Operand {
 public:
  Operand(std::size_t count, std::size_t size, bool dense, std::mt19937_64& random) : bytes_(count * size) {
    std::vector<schedule::StridedDim> dims{{1, 1}, {1 + random() % 5, 1}, {std::size_t{1} << random() % 6, 1}};
    if (random() % 3 == 0) dims[2].size = 1 + random() % 40;
    dims[0].size = count / (dims[1].size * dims[2].size) + 2;
    std::size_t stride = random() % 4 == 0 ? 2 : 1;
    const std::size_t gap = random() % 2 == 0 ? kVectorBytes : 1;
    for (std::size_t d = dims.size(); d-- > 0;) {
      dims[d].stride = stride;
      stride = stride * dims[d].size + random() % 3 * gap;
    }
    if (!dense) strided_.emplace(dims, size);
    if (strided_ && strided_->dense()) strided_.reset();
    base_ = random() % 2 == 0 ? kVectorBytes : kVectorBytes + random() % 4 * size;
    memory_.resize((stride * size + base_) / kVectorBytes + 2);
    for (std::size_t i = 0; i < memory_.size() * kVectorBytes; ++i) data()[i] = kUntouched;
  }

  std::byte* base() { return data() + base_; }
  std::byte* PlaceOf(std::size_t packed) {
    return base() + (strided_ ? schedule::StridedCursor(*strided_, packed).place() : packed);
  }
  Walk WalkFrom(std::size_t packed) {
    return strided_ ? Walk{&*strided_, strided_->At(packed), base()} : Walk{nullptr, {}, nullptr};
  }
  // The pointer that a Move holds.
  std::byte* Pointer(std::size_t packed) { return strided_ ? base() : base() + packed; }

  void Put(const std::vector<std::byte>& packed) {
    for (std::size_t i = 0; i < bytes_; ++i) *PlaceOf(i) = packed[i];
  }
  // The packed bytes; everything else must be as it was.
  std::vector<std::byte> Get(std::size_t from, std::size_t bytes) {
    std::vector<std::byte> got;
    for (std::size_t i = from; i < from + bytes; ++i) {
      got.push_back(*PlaceOf(i));
      *PlaceOf(i) = kUntouched;
    }
    for (std::size_t i = 0; i < memory_.size() * kVectorBytes; ++i) EXPECT_EQ(data()[i], kUntouched) << "byte " << i;
    return got;
  }

 private:
  static constexpr std::byte kUntouched{0xa5};
  std::byte* data() { return reinterpret_cast<std::byte*>(memory_.data()); }

  std::size_t bytes_, base_ = 0;
  std::optional<schedule::Strided> strided_;
  std::vector<Vector> memory_;
};

// Room for the strided operands of a reduction.
class Staging {
 public:
  explicit Staging(std::size_t operands) : memory_(operands * kStagedBytes / kVectorBytes) {}
  std::byte* data() { return reinterpret_cast<std::byte*>(memory_.data()); }

 private:
  std::vector<Vector> memory_;
};

// A step on elements `begin` to `begin + count` of every operand.
struct Step {
  tuttiDataType_t type;
  Arithmetic arithmetic;
  bool reduces;
  std::size_t sources, destinations, begin, count;
};

void ExpectMoved(const Step& step, std::mt19937_64& random) {
  const std::size_t size = SizeOf(step.type), all = step.begin + step.count, from = step.begin * size,
                    bytes = step.count * size;
  std::vector<std::vector<std::byte>> packed(step.sources, std::vector<std::byte>(all * size));
  std::vector<Operand> sources, destinations;
  std::vector<const void*> pointers;
  for (auto& each : packed) {
    host_kernels::Fill(step.type, each.data(), all, random);
    pointers.push_back(each.data() + from);
    sources.emplace_back(all, size, random() % 3 == 0, random).Put(each);
  }
  for (std::size_t d = 0; d < step.destinations; ++d) {
    destinations.emplace_back(all, size, random() % 3 == 0, random);
  }
  Move move = MoveOf(step.type, step.arithmetic, pointers, step.count);
  move.arithmetic = step.reduces;
  for (std::size_t s = 0; s < step.sources; ++s) {
    move.sources[s] = sources[s].Pointer(from);
    move.source_walks[s] = sources[s].WalkFrom(from);
  }
  for (auto& destination : destinations) {
    move.destinations[move.destination_count] = destination.Pointer(from);
    move.destination_walks[move.destination_count++] = destination.WalkFrom(from);
  }
  Staging staging(step.sources + step.destinations);
  move.staging = staging.data();
  RunBlock(kThreads, [&] { EXPECT_TRUE(CarryWalked(move)); });
  std::vector<std::byte> expected(packed[0].begin() + static_cast<std::ptrdiff_t>(from), packed[0].end());
  if (step.reduces) {
    expected = host_kernels::Reference(step.type, step.arithmetic.op, pointers, step.count, step.arithmetic.scalar,
                                       {step.arithmetic.scaled, step.arithmetic.divisor});
  }
  for (auto& destination : destinations) {
    EXPECT_EQ(std::memcmp(destination.Get(from, bytes).data(), expected.data(), bytes), 0)
        << NameOf(step.type) << " " << NameOf(step.arithmetic.op) << ", " << step.sources << " sources, " << step.count
        << " elements from " << step.begin;
  }
}

// Where Alignment finds all alike, no unit after the first multiple is misaligned or spans two runs.
TEST(WalkedMove, UnitsLieTogetherWhereAlignmentsAreAlike) {
  std::mt19937_64 random(4);
  int vectors = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    const std::size_t size = std::size_t{1} << random() % 4, count = 100 + random() % 100;
    const std::size_t from = random() % 3 * (random() % 20) * size;
    std::vector<Operand> operands;
    Alignment alignment;
    for (int i = 0; i < 2; ++i) operands.emplace_back(count, size, i == 1 && trial % 2 == 0, random);
    for (auto& operand : operands) alignment.See(operand.Pointer(from), operand.WalkFrom(from));
    for (const std::uint32_t width : {2U, 4U, 16U}) {
      if (!alignment.Alike(width)) continue;
      vectors += width == kVectorBytes ? 1 : 0;
      for (auto& operand : operands) {
        for (std::size_t at = from + alignment.ToNext(width); at + width <= count * size; at += width) {
          ASSERT_EQ(reinterpret_cast<std::uintptr_t>(operand.PlaceOf(at)) % width, 0) << "byte " << at;
          ASSERT_EQ(operand.PlaceOf(at + width - 1), operand.PlaceOf(at) + width - 1) << "byte " << at;
        }
      }
    }
  }
  EXPECT_GT(vectors, 30);
}

TEST(WalkedMove, CopiesFromPlaceToPlace) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 400; ++trial) {
    const auto type = static_cast<tuttiDataType_t>(random() % tuttiNumTypes);
    const std::size_t begin = random() % 2 * (random() % 100), count = 1 + random() % (trial % 8 == 0 ? 4000 : 300);
    ExpectMoved({type, {}, false, 1, 1 + random() % 3, begin, count}, random);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(WalkedMove, ReducesAsDenseOnesDo) {
  std::mt19937_64 random(2);
  for (int trial = 0; trial < testing::Rounds(600); ++trial) {
    const auto type = static_cast<tuttiDataType_t>(trial % tuttiNumTypes);
    Step step{type,
              {},
              true,
              1 + random() % 5,
              1 + random() % 2,
              random() % 2 * (random() % 64),
              1 + random() % (trial % 20 == 0 ? 40'000 : 400)};
    Arithmetic& arithmetic = step.arithmetic;
    arithmetic.op = host_kernels::kOps[random() % std::size(host_kernels::kOps)];
    if (arithmetic.op == tuttiSum && random() % 2 == 0) {
      arithmetic.divisor = random() % 2 == 0 ? 3 : 0;
      arithmetic.scaled = arithmetic.divisor == 0 ? random() % (std::uint64_t{1} << step.sources) : 0;
      host_kernels::Fill(type, arithmetic.scalar.bytes.data(), 1, random);
    }
    ExpectMoved(step, random);
    if (::testing::Test::HasFailure()) return;
  }
}

// A strided sender and a strided receiver, which adds its own data, run at the same time.
TEST(WalkedMove, PacketsAndLinesComeFromAndGoToAnyPlace) {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 120; ++trial) {
    const bool lines = trial % 2 == 0;
    const auto type = trial % 3 == 0 ? tuttiInt8 : trial % 3 == 1 ? tuttiInt32 : tuttiFloat64;
    // A reduction has several parts.
    const std::size_t most = trial % 20 < 2 ? 6000 : 120;
    const std::size_t size = SizeOf(type), count = 1 + random() % most, bytes = count * size;
    std::vector<std::byte> sent(bytes), own(bytes);
    host_kernels::Fill(type, sent.data(), count, random);
    host_kernels::Fill(type, own.data(), count, random);
    Operand source(count, size, false, random), addend(count, size, trial % 4 < 2, random),
        result(count, size, false, random);
    source.Put(sent);
    addend.Put(own);
    std::vector<Vector> slot((lines ? Line128SlotBytes(bytes) : PacketSlotBytes(bytes)) / kVectorBytes);
    auto* const packets = reinterpret_cast<std::byte*>(slot.data());
    constexpr std::uint32_t kNumber = 9;

    Move send = MoveOf(type, {}, {source.Pointer(0)}, count);
    send.source_walks[0] = source.WalkFrom(0);
    send.arithmetic = false;
    (lines ? send.lines : send.packets) = true;
    send.destinations[send.destination_count++] = packets;
    send.destination_numbers[0] = kNumber;
    Move receive = MoveOf(type, {}, {packets, addend.Pointer(0)}, count);
    (lines ? receive.lines : receive.packets) = true;
    receive.source_numbers[0] = kNumber;
    receive.source_walks[1] = addend.WalkFrom(0);
    receive.destinations[receive.destination_count++] = result.Pointer(0);
    receive.destination_walks[0] = result.WalkFrom(0);
    Staging staging(2);
    receive.staging = staging.data();
    std::thread receiver([&] { RunBlock(kThreads, [&] { EXPECT_TRUE(CarryWalked(receive)); }); });
    RunBlock(2, [&] { EXPECT_TRUE(CarryWalked(send)); });
    receiver.join();
    const auto expected = host_kernels::Reference(type, tuttiSum, {sent.data(), own.data()}, count);
    ASSERT_EQ(std::memcmp(result.Get(0, bytes).data(), expected.data(), bytes), 0) << NameOf(type) << ", " << count;
  }
}

}  // namespace
}  // namespace tutti::cuda_kernels
