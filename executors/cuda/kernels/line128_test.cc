// Steps whose slots are lines of 128 bytes, run by host kernels: compared bit by bit with the reference that the host's
// kernels are tested against.
#include "executors/cuda/kernels/line128.h"

#include "executors/cuda/kernels/move_testing.h"

namespace tutti::cuda_kernels {
namespace {

// The data of a slot, which has room for `bytes`; initially zero, as a ring's memory is.
class Slot {
 public:
  explicit Slot(std::size_t bytes) : lines_(Line128Count(bytes)) {}
  std::byte* data() { return lines_.data()->bytes; }
  std::uint64_t FlagOf(std::size_t line) const {
    std::uint64_t flag = 0;
    std::memcpy(&flag, lines_[line].bytes + kLine128Data, sizeof flag);
    return flag;
  }

 private:
  struct alignas(kLine128Bytes) Line {
    std::byte bytes[kLine128Bytes];
  };
  std::vector<Line> lines_;
};

Move SendOf(tuttiDataType_t type, const void* from, std::size_t count, Slot& to, std::uint64_t number) {
  Move move = MoveOf(type, {}, {from}, count);
  move.arithmetic = false;
  move.lines = true;
  move.destinations[move.destination_count] = to.data();
  move.destination_numbers[move.destination_count++] = number;
  return move;
}

TEST(Lines128, HoldWholeElementsOfEveryType) {
  for (int type = 0; type < tuttiNumTypes; ++type) {
    EXPECT_EQ(kLine128Data % SizeOf(static_cast<tuttiDataType_t>(type)), 0u);
  }
  EXPECT_EQ(Line128SlotBytes(0), 128u);
  EXPECT_EQ(Line128SlotBytes(1), 256u);
  EXPECT_EQ(Line128SlotBytes(120), 256u);
  EXPECT_EQ(Line128SlotBytes(121), 384u);
}

// A pair that came with another flag is not taken; a slot's number may need all 64 bits.
TEST(Lines128, AreTakenWithTheirNumberOnly) {
  constexpr std::uint64_t kNumber = (std::uint64_t{1} << 32) + 5;
  Slot slot(kLine128Data);
  const Vector sent{{1, 2, 3, 4}};
  Vector got{};
  for (std::uint32_t pair = 0; pair < kLine128Pairs; ++pair) {
    EXPECT_FALSE(LoadLine128(slot.data(), pair, kNumber, &got)) << "not before the flag";
    StoreLine128(slot.data(), pair, kNumber, sent);
  }
  EXPECT_EQ(slot.FlagOf(0), kNumber);
  for (std::uint32_t pair = 0; pair < kLine128Pairs; ++pair) {
    EXPECT_FALSE(LoadLine128(slot.data(), pair, 5, &got)) << "the lower half is that of an older slot";
    EXPECT_TRUE(LoadLine128(slot.data(), pair, kNumber, &got));
    EXPECT_EQ(std::memcmp(&got, &sent, Line128PairData(pair)), 0) << pair;
  }
}

// The sender and the receiver run at the same time, for several messages through one slot. The receiver adds two
// operands of its own, and passes the sum on in lines.
void ExpectSummed(tuttiDataType_t type, const Arithmetic& arithmetic, std::size_t count, std::size_t misaligned) {
  const std::size_t bytes = count * SizeOf(type), aside = misaligned * SizeOf(type);
  std::mt19937_64 random(count + misaligned);
  Slot first(bytes), passed_on(bytes);
  for (std::uint64_t number = (std::uint64_t{1} << 32) - 1; number <= std::uint64_t{1} << 32; ++number) {
    host_kernels::Destination sent(bytes, aside), own(bytes, 0), other(bytes, aside), got(bytes, aside), last(bytes, 0);
    for (auto* each : {&sent, &own, &other}) {
      host_kernels::Fill(type, static_cast<std::byte*>(each->data()), count, random);
    }
    const auto expected = host_kernels::Reference(type, arithmetic.op, {sent.data(), own.data(), other.data()}, count,
                                                  arithmetic.scalar, {arithmetic.scaled, arithmetic.divisor});
    Move send = SendOf(type, sent.data(), count, first, number);
    Move receive = MoveOf(type, arithmetic, {first.data(), own.data(), other.data()}, count);
    receive.lines = true;
    receive.source_numbers[0] = number;
    receive.destinations[0] = static_cast<std::byte*>(got.data());
    receive.destinations[1] = passed_on.data();
    receive.destination_numbers[1] = number;
    receive.destination_count = 2;
    Move take = MoveOf(type, {}, {passed_on.data()}, count);
    take.arithmetic = false;
    take.lines = true;
    take.source_numbers[0] = number;
    take.destinations[take.destination_count++] = static_cast<std::byte*>(last.data());
    std::thread receiver([&] { RunBlock(3, [&] { EXPECT_TRUE(Carry(receive)); }); });
    std::thread taker([&] { RunBlock(1, [&] { EXPECT_TRUE(Carry(take)); }); });
    RunBlock(2, [&] { EXPECT_TRUE(Carry(send)); });
    receiver.join();
    taker.join();
    for (auto* each : {&got, &last}) {
      EXPECT_TRUE(each->GuardsIntact());
      EXPECT_EQ(std::memcmp(each->data(), expected.data(), bytes), 0)
          << NameOf(type) << " " << NameOf(arithmetic.op) << ", " << count << " elements, " << misaligned << " aside";
    }
    for (std::size_t line = 0; line < Line128Count(bytes); ++line) EXPECT_EQ(first.FlagOf(line), number);
  }
}

TEST(Lines128, AreSummedAndPassedOn) {
  for (int t = 0; t < tuttiNumTypes; ++t) {
    const auto type = static_cast<tuttiDataType_t>(t);
    const std::size_t in_line = kLine128Data / SizeOf(type);
    for (const std::size_t count : {std::size_t{1}, in_line - 1, in_line, in_line + 1, 7 * in_line + 3, 20 * in_line}) {
      for (const std::size_t misaligned : {0, 1}) ExpectSummed(type, {}, count, misaligned);
    }
    for (const auto op : host_kernels::kOps) ExpectSummed(type, {op}, 5 * in_line + 1, 1);
    ExpectSummed(type, {tuttiSum, 0, {}, 3}, 3 * in_line + 1, 0);
    host_kernels::Scalar factor;
    std::mt19937_64 random(static_cast<std::uint64_t>(t));
    host_kernels::Fill(type, factor.bytes.data(), 1, random);
    ExpectSummed(type, {tuttiSum, 0b010, factor, 0}, 3 * in_line + 1, 0);
  }
}

// Any number of sources, of which any are slots.
TEST(Lines128, AndMemoryAreAddedInOrder) {
  const auto type = tuttiFloat32;
  constexpr std::size_t kCount = 1001, kBytes = kCount * sizeof(float);
  constexpr std::uint64_t kNumber = 3;
  std::mt19937_64 random(8);
  for (std::size_t sources = 1; sources <= 6; ++sources) {
    for (std::uint32_t slots = 0; slots < 1U << sources; ++slots) {
      std::vector<std::vector<float>> values(sources, std::vector<float>(kCount));
      std::vector<const void*> pointers;
      std::vector<Slot> lines(sources, Slot(kBytes));
      std::vector<float> got(kCount);
      for (auto& each : values) {
        host_kernels::Fill(type, reinterpret_cast<std::byte*>(each.data()), kCount, random);
        pointers.push_back(each.data());
      }
      Move move = MoveOf(type, {}, pointers, kCount);
      move.lines = true;
      for (std::size_t s = 0; s < sources; ++s) {
        if ((slots >> s & 1) == 0) continue;
        const Move send = SendOf(type, pointers[s], kCount, lines[s], kNumber);
        RunBlock(1, [&] { EXPECT_TRUE(Carry(send)); });
        move.sources[s] = lines[s].data();
        move.source_numbers[s] = kNumber;
      }
      move.destinations[move.destination_count++] = reinterpret_cast<std::byte*>(got.data());
      RunBlock(2, [&] { EXPECT_TRUE(Carry(move)); });
      const auto expected = host_kernels::Reference(type, tuttiSum, pointers, kCount);
      EXPECT_EQ(std::memcmp(got.data(), expected.data(), kBytes), 0) << sources << " sources, slots " << slots;
    }
  }
}

TEST(Lines128, WaitingEndsWhenToldToStop) {
  Slot slot(kLine128Data);
  const std::uint32_t stop = 1;
  std::int32_t got = 0, own = 0;
  for (const bool reduces : {false, true}) {
    Move move = MoveOf(tuttiInt32, {}, {slot.data(), &own}, 1);
    if (!reduces) move.source_count = 1;
    move.arithmetic = reduces;
    move.lines = true;
    move.stop = &stop;
    move.source_numbers[0] = 1;
    move.destinations[move.destination_count++] = reinterpret_cast<std::byte*>(&got);
    RunBlock(1, [&] { EXPECT_FALSE(Carry(move)); });
  }
}

}  // namespace
}  // namespace tutti::cuda_kernels
