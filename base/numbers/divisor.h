// Division by a number that is known long before the dividend: a multiplication and two shifts instead of a division,
// for which a GPU has no instruction. Granlund and Montgomery, "Division by Invariant Integers using Multiplication"
// (PLDI 1994), figure 4.1, for 32 bits. Constant expressions, so that one compiler's tests hold for the other's code.
//
// Thread-safety: a value type.
#pragma once

#include <bit>
#include <cstdint>

namespace tutti {

class Divisor {
 public:
  Divisor() = default;
  // REQUIRES: value > 0.
  constexpr explicit Divisor(std::uint64_t value) : value_(value) {
    if (value >> kBits != 0) return;
    const auto log = static_cast<std::uint32_t>(std::bit_width(value - 1));  // rounded up
    multiplier_ = static_cast<std::uint32_t>((((std::uint64_t{1} << log) - value) << kBits) / value + 1);
    first_shift_ = log < 1 ? log : 1;
    second_shift_ = log - first_shift_;
  }

  constexpr std::uint64_t value() const { return value_; }
  // n / value(). Operands of more than 32 bits are divided in the ordinary way.
  constexpr std::uint64_t Quotient(std::uint64_t n) const {
    if ((n | value_) >> kBits != 0) return n / value_;
    const auto low = static_cast<std::uint32_t>(n);
    const auto high = static_cast<std::uint32_t>(std::uint64_t{multiplier_} * low >> kBits);
    return (high + ((low - high) >> first_shift_)) >> second_shift_;
  }

 private:
  static constexpr int kBits = 32;

  std::uint64_t value_ = 0;
  std::uint32_t multiplier_ = 0;
  std::uint16_t first_shift_ = 0, second_shift_ = 0;
};

}  // namespace tutti
