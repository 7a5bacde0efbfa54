// Elements of every datatype from small whole numbers, for exactly predictable results. Independent of the library's
// own conversions.
//
// Thread-safety: pure functions.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::testing {

inline constexpr std::size_t kElementBytes[tuttiNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1, 2, 2};
inline constexpr const char* kTypeNames[tuttiNumTypes] = {"int8",   "uint8",   "int32",   "uint32",  "int64",
                                                          "uint64", "float16", "float32", "float64", "bfloat16",
                                                          "f8e4m3", "f8e5m2",  "int16",   "uint16"};
inline constexpr const char* kOpNames[tuttiNumOps] = {"sum", "prod", "max", "min", "avg"};

// Every whole number from -kLimits[type] (0 for unsigned types) to kLimits[type] is exact in the type, and so is every
// sum that stays inside.
inline constexpr std::int64_t kLimits[tuttiNumTypes] = {127,     255,     1 << 20, 1 << 20, 1 << 20, 1 << 20, 2048,
                                                        1 << 20, 1 << 20, 256,     16,      8,       32767,   65535};

constexpr bool IsSigned(tuttiDataType_t type) {
  return type != tuttiUint8 && type != tuttiUint16 && type != tuttiUint32 && type != tuttiUint64;
}

// A small float format by its definition.
struct SmallFloat {
  int exponent_bits, mantissa_bits, bias;
  bool has_infinity;

  int sign_bit() const { return exponent_bits + mantissa_bits; }
  double Decode(std::uint32_t code) const {
    const int exponent = static_cast<int>(code >> mantissa_bits & ((1U << exponent_bits) - 1));
    const int mantissa = static_cast<int>(code & ((1U << mantissa_bits) - 1));
    const double sign = (code >> sign_bit() & 1) != 0 ? -1 : 1;
    const bool top = exponent == (1 << exponent_bits) - 1;
    if (top && has_infinity) return mantissa == 0 ? sign * INFINITY : NAN;
    if (top && mantissa == (1 << mantissa_bits) - 1) return NAN;
    if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  }
  // Nearest finite value, ties to even. REQUIRES: value rounds to a finite one.
  std::uint32_t Encode(double value) const {
    // Magnitudes grow with their codes, so bisection finds the nearest.
    const double magnitude = std::fabs(value);
    std::uint32_t low = 0, high = (1U << sign_bit()) - 1;
    while (!std::isfinite(Decode(high))) --high;
    while (high - low > 1) {
      const auto middle = (low + high) / 2;
      (Decode(middle) <= magnitude ? low : high) = middle;
    }
    const double below = magnitude - Decode(low), above = Decode(high) - magnitude;
    const bool up = above < below || (above == below && (high & 1) == 0);
    return (up ? high : low) | (std::signbit(value) ? 1U << sign_bit() : 0U);
  }
};

inline constexpr SmallFloat kFloat16{5, 10, 15, true}, kBfloat16{8, 7, 127, true}, kFloat8e4m3{4, 3, 7, false},
    kFloat8e5m2{5, 2, 15, true};

constexpr const SmallFloat* SmallFloatOf(tuttiDataType_t type) {
  switch (type) {
    case tuttiFloat16: return &kFloat16;
    case tuttiBfloat16: return &kBfloat16;
    case tuttiFloat8e4m3: return &kFloat8e4m3;
    case tuttiFloat8e5m2: return &kFloat8e5m2;
    default: return nullptr;
  }
}

// The codes of a test's whole numbers. Each is computed once, because a million bisections would be slow.
inline std::uint32_t CodeOf(const SmallFloat& format, std::int64_t value) {
  constexpr std::int64_t kReach = 2048;
  constexpr std::uint32_t kUnknown = std::numeric_limits<std::uint32_t>::max();
  if (value < -kReach || value > kReach) return format.Encode(static_cast<double>(value));
  thread_local std::map<const SmallFloat*, std::vector<std::uint32_t>> codes;
  thread_local std::pair<const SmallFloat*, std::uint32_t*> latest{};
  if (latest.first != &format) {
    auto& known = codes[&format];
    known.resize(2 * kReach + 1, kUnknown);
    latest = {&format, known.data()};
  }
  auto& code = latest.second[value + kReach];
  if (code == kUnknown) code = format.Encode(static_cast<double>(value));
  return code;
}

template <typename T>
void StoreAs(void* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

// Writes value(i) to each of `count` elements from `at` on.
template <typename Value>
void FillElements(tuttiDataType_t type, void* at, std::size_t count, Value&& value) {
  auto* bytes = static_cast<unsigned char*>(at);
  const auto fill = [&](auto zero) {
    using T = decltype(zero);
    for (std::size_t i = 0; i < count; ++i) StoreAs<T>(bytes + i * sizeof(T), static_cast<T>(value(i)));
  };
  switch (type) {
    case tuttiInt8: return fill(std::int8_t{});
    case tuttiUint8: return fill(std::uint8_t{});
    case tuttiInt16: return fill(std::int16_t{});
    case tuttiUint16: return fill(std::uint16_t{});
    case tuttiInt32: return fill(std::int32_t{});
    case tuttiUint32: return fill(std::uint32_t{});
    case tuttiInt64: return fill(std::int64_t{});
    case tuttiUint64: return fill(std::uint64_t{});
    case tuttiFloat32: return fill(float{});
    case tuttiFloat64: return fill(double{});
    default: break;
  }
  const auto& format = *SmallFloatOf(type);
  const auto size = kElementBytes[type];
  for (std::size_t i = 0; i < count; ++i) {
    const auto code = CodeOf(format, value(i));
    if (size == 1) {
      StoreAs(bytes + i, static_cast<std::uint8_t>(code));
    } else {
      StoreAs(bytes + 2 * i, static_cast<std::uint16_t>(code));
    }
  }
}

// A value without a name in the enumeration, which a C caller may still pass.
template <typename Enum>
Enum Odd(int value) {
  Enum odd;
  static_assert(sizeof odd == sizeof value);
  std::memcpy(&odd, &value, sizeof odd);
  return odd;
}

}  // namespace tutti::testing
