// Data whose reduction is known exactly, whatever the order of the operations.
//
// An input depends on the reduction, the seed, the rank and the place. Floating-point inputs are chosen so that no
// partial result is ever rounded: sums are of small integers times one power of two, and a product has one factor that
// is not a power of two. So the check compares bits; only an average is rounded, once or twice. Integers wrap around
// and cover all magnitudes.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <type_traits>

namespace tutti::fake_gpu {

enum class Reduction { kNone, kSum, kMin, kMax, kProduct, kAverage, kPreMulSum };

struct Series {
  Reduction reduction;
  int ranks;
  std::uint64_t seed;
};

// A floating-point type's exact numbers: integers of `precision` bits times powers of two between the bounds.
struct Format {
  int precision;
  int lowest;   // exponents used, away from subnormal numbers and infinity
  int highest;  // even after a sum of 2^precision
  int product;  // 1.5 times two to this power is finite
};

template <class T>
constexpr Format FormatOf() {
  if constexpr (std::same_as<T, double>) return {53, -20, 20, 60};
  if constexpr (std::same_as<T, float>) return {24, -20, 20, 60};
  if constexpr (std::same_as<T, __nv_bfloat16>) return {8, -20, 20, 60};
  if constexpr (std::same_as<T, __half>) return {11, -8, 4, 14};
  if constexpr (std::same_as<T, __nv_fp8_e5m2>) return {3, -8, 8, 14};
  if constexpr (std::same_as<T, __nv_fp8_e4m3>) return {4, -4, 4, 7};
}

// Bits that look random, a different 64 for each place, rank and purpose: the mixing steps of SplitMix64.
inline std::uint64_t Bits(const Series& series, std::int64_t place, int rank, int purpose) {
  constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;
  std::uint64_t bits = series.seed;
  for (const auto part : {static_cast<std::uint64_t>(place), static_cast<std::uint64_t>(rank * 8 + purpose)}) {
    bits = (bits ^ part) + kStep;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
    bits ^= bits >> 31;
  }
  return bits;
}

enum Purpose { kValue, kExponent, kTurn };
inline constexpr int kAllRanks = -1;  // for values that all ranks share

// Between low and high, both inclusive.
inline std::int64_t Between(std::uint64_t bits, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(high - low + 1));
}

// A rank's scalar in nccl-tests, for sums of products.
inline int PreMulScalar(int rank) { return rank % 2 == 0 ? 1 : 2; }

// The rank's position in an order that differs from place to place.
inline int Turn(const Series& series, std::int64_t place, int rank) {
  const std::uint64_t shift = Bits(series, place, kAllRanks, kTurn) % static_cast<std::uint64_t>(series.ranks);
  return (rank + static_cast<int>(shift)) % series.ranks;
}

// A rank's exact input, for numbers of this format.
inline double ExactInput(const Series& series, const Format& format, int rank, std::int64_t place) {
  const std::uint64_t bits = Bits(series, place, rank, kValue);
  const int turn = Turn(series, place, rank);
  const auto fraction = static_cast<double>((bits >> 1) & ((std::uint64_t{1} << (format.precision - 1)) - 1));
  const double mantissa = 1 + std::ldexp(fraction, 1 - format.precision);
  const double sign = (bits & 1) != 0 ? -1 : 1;
  switch (series.reduction) {
    case Reduction::kSum:
    case Reduction::kAverage:
    case Reduction::kPreMulSum: {
      const int scale = series.reduction == Reduction::kPreMulSum ? 2 : 1;
      const auto most = (std::int64_t{1} << format.precision) / scale;  // the most that all inputs may add up to
      const auto givers = std::min<std::int64_t>(series.ranks, most);
      const auto limit = most / givers;
      const auto exponent = Between(Bits(series, place, kAllRanks, kExponent), format.lowest, format.highest);
      const auto number = turn < givers ? Between(bits, -limit, limit) : 0;
      return std::ldexp(static_cast<double>(number), static_cast<int>(exponent));
    }
    case Reduction::kProduct: {
      const double factor = turn < format.product && (bits >> 63) != 0 ? 2 : 1;
      return sign * (turn == 0 ? mantissa : factor);
    }
    default: {
      const auto exponent = Between(Bits(series, place, rank, kExponent), format.lowest, format.highest);
      return sign * std::ldexp(mantissa, static_cast<int>(exponent));
    }
  }
}

template <class T>
T Input(const Series& series, int rank, std::int64_t place) {
  if constexpr (std::integral<T>) {
    const auto number = static_cast<T>(Bits(series, place, rank, kValue));
    return series.reduction == Reduction::kProduct && number == 0 ? T{1} : number;
  } else {
    return T(ExactInput(series, FormatOf<T>(), rank, place));
  }
}

// Combines the next rank's number with the result of the ranks before it. `Wide` loses nothing: unsigned integers wrap
// as narrower ones do, and doubles are exact here. Minimum and maximum compare as T does.
template <class T, class Wide>
Wide Combined(Reduction reduction, Wide sum, T next, int rank) {
  const auto wide = static_cast<Wide>(next);
  switch (reduction) {
    case Reduction::kMin: return wide < sum ? wide : sum;
    case Reduction::kMax: return wide > sum ? wide : sum;
    case Reduction::kProduct: return sum * wide;
    case Reduction::kPreMulSum: return sum + wide * static_cast<Wide>(PreMulScalar(rank));
    default: return sum + wide;
  }
}

template <class T>
T Expected(const Series& series, std::int64_t place) {
  // Comparisons use signed integers. Sums and products of them must not overflow, so those are unsigned.
  const bool compares = series.reduction == Reduction::kMin || series.reduction == Reduction::kMax;
  const auto reduce = [&]<class Wide>(Wide /*type*/) {
    auto result = static_cast<Wide>(Input<T>(series, 0, place));
    if (series.reduction == Reduction::kPreMulSum) result *= static_cast<Wide>(PreMulScalar(0));
    for (int rank = 1; rank < series.ranks; ++rank) {
      result = Combined(series.reduction, result, Input<T>(series, rank, place), rank);
    }
    return result;
  };
  if (series.reduction == Reduction::kNone) return Input<T>(series, 0, place);
  if constexpr (std::integral<T>) {
    using Signed = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    if (compares) return static_cast<T>(reduce(Signed{}));
    const auto sum = static_cast<T>(reduce(std::uint64_t{}));
    if (series.reduction != Reduction::kAverage) return sum;
    return static_cast<T>(static_cast<Signed>(sum) / static_cast<Signed>(series.ranks));
  } else {
    const double result = reduce(double{});
    return T(series.reduction == Reduction::kAverage ? result / series.ranks : result);
  }
}

// The number of elements, of any type of that size, whose bits, taken as integers, differ by more than `tolerance`.
template <std::unsigned_integral T>
std::int64_t CountWrong(const T* results, const T* expected, std::int64_t count, unsigned tolerance) {
  return std::count_if(results, results + count, [&](const T& each) {
    const T wanted = expected[&each - results];
    return (each < wanted ? wanted - each : each - wanted) > static_cast<T>(tolerance);
  });
}

}  // namespace tutti::fake_gpu
