#include "bench/worker/values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "base/numbers/datatype.h"

namespace tutti::bench {
namespace {

// The number that an element holds, by each format's definition and independent of Encode.
double Decode(tuttiDataType_t type, const std::byte* element) {
  const auto small = [](std::uint32_t bits, int exponent_bits, int mantissa_bits) {
    const double sign = (bits >> (exponent_bits + mantissa_bits)) != 0 ? -1 : 1;
    const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
    const double fraction = static_cast<double>(bits & ((1u << mantissa_bits) - 1)) / (1 << mantissa_bits);
    const int bias = (1 << (exponent_bits - 1)) - 1;
    if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
    return sign * std::ldexp(1 + fraction, exponent - bias);
  };
  const auto read = [element]<typename T>(T) {
    T value;
    std::memcpy(&value, element, sizeof value);
    return value;
  };
  // What C++ reads by itself.
  const auto arithmetic = VisitDataType(type, [&]<typename Element>(std::type_identity<Element>) {
    if constexpr (kIsFormat<Element>)
      return std::optional<double>();
    else
      return std::optional(static_cast<double>(read(Element{})));
  });
  if (arithmetic) return *arithmetic;
  switch (type) {
    case tuttiFloat16: return small(read(std::uint16_t{}), 5, 10);
    case tuttiBfloat16: return small(read(std::uint16_t{}), 8, 7);
    case tuttiFloat8e4m3: return small(read(std::uint8_t{}), 4, 3);
    case tuttiFloat8e5m2: return small(read(std::uint8_t{}), 5, 2);
    default: return std::numeric_limits<double>::quiet_NaN();
  }
}

double Rounded(tuttiDataType_t type, double number) {
  std::byte element[8];
  Encode(type, number, element);
  return Decode(type, element);
}

// Encoding the value of a code returns that code, for every finite code of the small types.
TEST(Encode, InvertsDecodeForEveryFiniteCode) {
  struct Kind {
    tuttiDataType_t type;
    std::uint32_t codes, infinite;  // magnitudes from `infinite` on are not finite
  };
  for (const Kind& kind : {Kind{tuttiFloat8e4m3, 256, 0x7f}, Kind{tuttiFloat8e5m2, 256, 0x7c},
                           Kind{tuttiFloat16, 65536, 0x7c00}, Kind{tuttiBfloat16, 65536, 0x7f80}}) {
    for (std::uint32_t code = 0; code < kind.codes; ++code) {
      if ((code & (kind.codes / 2 - 1)) >= kind.infinite) continue;
      std::byte bits[4], again[4] = {};
      std::memcpy(bits, &code, sizeof bits);
      Encode(kind.type, Decode(kind.type, bits), again);
      EXPECT_EQ(std::memcmp(bits, again, SizeOf(kind.type)), 0) << NcclTestsName(kind.type) << " code " << code;
    }
  }
}

TEST(Encode, RoundsToNearestEven) {
  EXPECT_EQ(Rounded(tuttiFloat8e5m2, 9), 8);
  EXPECT_EQ(Rounded(tuttiFloat8e5m2, 11), 12);
  EXPECT_EQ(Rounded(tuttiFloat8e4m3, 17), 16);
  EXPECT_EQ(Rounded(tuttiFloat8e4m3, 19), 20);
  EXPECT_EQ(Rounded(tuttiBfloat16, 257), 256);
  EXPECT_EQ(Rounded(tuttiFloat16, 2049), 2048);
  EXPECT_EQ(Rounded(tuttiFloat8e4m3, 15.75), 16) << "carries into the exponent";
}

constexpr int kRanks[] = {1, 2, 3, 7, 8, 24, 64};

class EveryType : public ::testing::TestWithParam<int> {
 protected:
  tuttiDataType_t type() const { return static_cast<tuttiDataType_t>(GetParam()); }
};

double Combine(tuttiRedOp_t op, double a, double b) {
  switch (op) {
    case tuttiProd: return a * b;
    case tuttiMax: return std::max(a, b);
    case tuttiMin: return std::min(a, b);
    default: return a + b;
  }
}

// Folds the inputs in the order given, rounding to the type after every step.
double Fold(tuttiDataType_t type, tuttiRedOp_t op, const std::vector<Table>& inputs, const std::vector<int>& order,
            std::size_t slot) {
  const auto number = [&](int rank) {
    return Decode(type, inputs[static_cast<std::size_t>(rank)].data() + slot * SizeOf(type));
  };
  double result = number(order[0]);
  for (std::size_t i = 1; i < order.size(); ++i) result = Rounded(type, Combine(op, result, number(order[i])));
  if (op != tuttiAvg) return result;
  const auto ranks = static_cast<double>(order.size());
  if (!IsFloat(type)) return std::trunc(result / ranks);
  return type == tuttiFloat64 ? result / ranks : static_cast<float>(result) / static_cast<float>(ranks);
}

// Whether the promised bits result, for a sample of the entries.
::testing::AssertionResult IsExactInAnyOrder(tuttiDataType_t type, tuttiRedOp_t op, int ranks) {
  constexpr std::size_t kStride = 61;
  const Values values(type, op, true, ranks, 7);
  std::vector<Table> inputs;
  for (int rank = 0; rank < ranks; ++rank) inputs.push_back(values.Input(rank));
  const Table expected = values.Reduced();
  const std::size_t size = SizeOf(type);
  std::vector<int> order(static_cast<std::size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  for (int shuffle = 0; shuffle < 4; ++shuffle) {
    for (std::size_t slot = 0; slot < kPeriod; slot += kStride) {
      const double result = Fold(type, op, inputs, order, slot);
      std::byte actual[8];
      Encode(type, result, actual);
      if (std::memcmp(actual, expected.data() + slot * size, size) != 0) {
        return ::testing::AssertionFailure() << tutti::NameOf(op) << ", " << ranks << " ranks, slot " << slot << ": "
                                             << result << " instead of " << Decode(type, expected.data() + slot * size);
      }
    }
    std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(order.size() / 3), order.end());
    std::reverse(order.begin(), order.end());
    if (shuffle == 2) std::stable_partition(order.begin(), order.end(), [](int rank) { return rank % 2 == 0; });
  }
  return ::testing::AssertionSuccess();
}

TEST_P(EveryType, ReductionIsExactInAnyOrder) {
  for (int op = 0; op < tuttiNumOps; ++op) {
    for (const int ranks : kRanks) EXPECT_TRUE(IsExactInAnyOrder(type(), static_cast<tuttiRedOp_t>(op), ranks));
  }
}

// If a library omits a rank or counts it twice, many elements are wrong. (Not with min and max, where most ranks do not
// hold the extreme.)
TEST_P(EveryType, EveryRankCounts) {
  for (const tuttiRedOp_t op : {tuttiSum, tuttiProd, tuttiAvg}) {
    const double neutral = op == tuttiProd ? 1 : 0;
    for (const int ranks : kRanks) {
      const Values values(type(), op, true, ranks, 3);
      for (int rank = 0; rank < ranks; ++rank) {
        int matters = 0;
        for (std::size_t slot = 0; slot < kPeriod; ++slot) matters += values.InputNumber(rank, slot) != neutral ? 1 : 0;
        EXPECT_GT(matters, 64) << tutti::NameOf(op) << ", rank " << rank << " of " << ranks;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, EveryType, ::testing::Range(0, static_cast<int>(tuttiNumTypes)), [](const auto& info) {
  return std::string(NcclTestsName(static_cast<tuttiDataType_t>(info.param)));
});

TEST(Values, DifferBetweenRanksSeedsAndPlaces) {
  const Values values(tuttiFloat32, tuttiSum, true, 4, 1);
  EXPECT_NE(values.Input(0), values.Input(1));
  EXPECT_NE(values.Input(0), Values(tuttiFloat32, tuttiSum, true, 4, 2).Input(0));
  const Table table = values.Input(2);
  std::vector<std::byte> data(3 * kPeriod * sizeof(float));
  Fill(table, sizeof(float), 0, 3 * kPeriod, data.data());
  constexpr std::size_t kCount = 1000;
  EXPECT_EQ(CountWrong(table, sizeof(float), 5, kCount, data.data() + 5 * sizeof(float)), 0u);
  EXPECT_EQ(CountWrong(table, sizeof(float), kPeriod + 5, kCount, data.data() + 5 * sizeof(float)), 0u);
  EXPECT_GT(CountWrong(table, sizeof(float), 5 + 4096, kCount, data.data() + 5 * sizeof(float)), kCount / 2);
}

TEST(CountWrong, CountsEachElementOnce) {
  const Table table = Values(tuttiFloat64, tuttiSum, false, 2, 1).Input(0);
  constexpr std::size_t kCount = 3 * kPeriod + 17;
  std::vector<std::byte> data(kCount * sizeof(double));
  Fill(table, sizeof(double), 40, kCount, data.data());
  EXPECT_EQ(CountWrong(table, sizeof(double), 40, kCount, data.data()), 0u);
  data[0] ^= std::byte{1};
  data[3] ^= std::byte{1};  // the same element
  data[2 * kPeriod * sizeof(double) + 9] ^= std::byte{1};
  data.back() ^= std::byte{128};
  EXPECT_EQ(CountWrong(table, sizeof(double), 40, kCount, data.data()), 3u);
}

}  // namespace
}  // namespace tutti::bench
