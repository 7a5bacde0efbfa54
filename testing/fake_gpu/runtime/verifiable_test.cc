#include "testing/fake_gpu/runtime/verifiable.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

namespace tutti::fake_gpu {
namespace {

constexpr int kPlaces = 300;

template <class T>
class Verifiable : public ::testing::Test {};
using Floats = ::testing::Types<double, float, __half, __nv_bfloat16, __nv_fp8_e4m3, __nv_fp8_e5m2>;
TYPED_TEST_SUITE(Verifiable, Floats);

template <class T>
bool SameBits(T a, T b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

// One step of a reduction that keeps its partial results in T.
template <class T>
T Step(Reduction reduction, T a, T b) {
  const auto x = static_cast<double>(a);
  const auto y = static_cast<double>(b);
  switch (reduction) {
    case Reduction::kProduct: return T(x * y);
    case Reduction::kMin: return T(std::min(x, y));
    case Reduction::kMax: return T(std::max(x, y));
    default: return T(x + y);
  }
}

TYPED_TEST(Verifiable, NoOrderOfRanksRoundsAnything) {
  using T = TypeParam;
  for (const auto reduction : {Reduction::kSum, Reduction::kProduct, Reduction::kMin, Reduction::kMax}) {
    for (const int ranks : {2, 3, 8, 40}) {
      for (int place = 0; place < kPlaces; ++place) {
        const Series series{reduction, ranks, 33};
        T up = Input<T>(series, 0, place);
        T down = Input<T>(series, ranks - 1, place);
        for (int rank = 1; rank < ranks; ++rank) {
          up = Step(reduction, up, Input<T>(series, rank, place));
          down = Step(reduction, down, Input<T>(series, ranks - 1 - rank, place));
        }
        const T expected = Expected<T>(series, place);
        ASSERT_TRUE(std::isfinite(static_cast<double>(expected)));
        ASSERT_TRUE(SameBits(up, expected)) << ranks << " ranks, place " << place;
        ASSERT_TRUE(SameBits(down, expected)) << ranks << " ranks, place " << place;
      }
    }
  }
}

TYPED_TEST(Verifiable, ScalarsAreApplied) {
  using T = TypeParam;
  for (int place = 0; place < kPlaces; ++place) {
    const Series series{Reduction::kPreMulSum, 3, 5};
    const auto number = [&](int rank) { return static_cast<double>(Input<T>(series, rank, place)); };
    const T sum = T(number(0) + 2 * number(1) + number(2));
    ASSERT_TRUE(SameBits(sum, Expected<T>(series, place)));
  }
}

TYPED_TEST(Verifiable, NumbersDifferByPlaceRankAndSeed) {
  using T = TypeParam;
  std::set<double> values;
  int different = 0;
  for (int place = 0; place < kPlaces; ++place) {
    const auto number = [&](std::uint64_t seed, int rank) {
      return static_cast<double>(Input<T>({Reduction::kMax, 2, seed}, rank, place));
    };
    values.insert(number(1, 0));
    different += number(1, 0) != number(1, 1) && number(1, 0) != number(2, 0) ? 1 : 0;
  }
  EXPECT_GT(values.size(), 30U);  // of fp8's 256
  EXPECT_GT(different, kPlaces * 8 / 10);
}

template <class T>
void CheckIntegers() {
  for (int place = 0; place < kPlaces; ++place) {
    T sum = 0;
    T largest = Input<T>({Reduction::kMax, 5, 1}, 0, place);
    for (int rank = 0; rank < 5; ++rank) {
      sum = static_cast<T>(sum + Input<T>({Reduction::kSum, 5, 1}, rank, place));
      largest = std::max(largest, Input<T>({Reduction::kMax, 5, 1}, rank, place));
    }
    ASSERT_EQ(Expected<T>({Reduction::kSum, 5, 1}, place), sum);
    ASSERT_EQ(Expected<T>({Reduction::kMax, 5, 1}, place), largest);
    ASSERT_EQ(Expected<T>({Reduction::kAverage, 5, 1}, place), static_cast<T>(sum / 5));
  }
}

TEST(VerifiableIntegers, WrapAndDivideTowardsZero) {
  CheckIntegers<std::int8_t>();  // the sum of narrower types than int is cut, not overflowed
  CheckIntegers<std::uint8_t>();
  CheckIntegers<std::uint32_t>();
  CheckIntegers<std::uint64_t>();
}

TEST(Verification, CountsWhatIsFurtherAwayThanTheTolerance) {
  const std::vector<std::uint16_t> expected{10, 20, 30, 0x8000};
  const std::vector<std::uint16_t> results{12, 17, 30, 0};
  EXPECT_EQ(CountWrong(results.data(), expected.data(), 4, 0), 3);
  EXPECT_EQ(CountWrong(results.data(), expected.data(), 4, 2), 2);
  EXPECT_EQ(CountWrong(results.data(), expected.data(), 4, 3), 1);
}

}  // namespace
}  // namespace tutti::fake_gpu
