// Inputs with an exactly predictable reduction, whatever the order of operations and however often partial results are
// rounded to the element type: small whole numbers whose partial sums are all representable, and factors +-1 and +-2
// whose partial products are. Collectives that only move data get arbitrary bits, including NaNs.
//
// Element i of a rank's input is entry i mod kPeriod of a table that depends on (seed, rank). The period is prime, so
// that a block in the wrong place is as wrong as one from the wrong rank. Tables make filling and comparing as fast as
// memory.
//
// Thread-safety: immutable after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::bench {

inline constexpr std::size_t kPeriod = 8191;

using Table = std::vector<std::byte>;  // kPeriod elements of the type

class Values {
 public:
  // `reduces`: the collective combines values with `op`; otherwise inputs are arbitrary bits. REQUIRES: ranks >= 1.
  Values(tuttiDataType_t type, tuttiRedOp_t op, bool reduces, int ranks, std::uint64_t seed);

  Table Input(int rank) const;
  // REQUIRES: reduces. The exact result of `op` over all ranks' inputs, to the last bit.
  Table Reduced() const;

  // The number behind an entry of Input(). REQUIRES: reduces.
  double InputNumber(int rank, std::size_t slot) const;

 private:
  double SummandOf(int rank, std::size_t slot) const;
  double AverageSummandOf(int rank, std::size_t slot) const;
  double FactorOf(int rank, std::size_t slot) const;
  double ReducedNumber(std::size_t slot) const;

  tuttiDataType_t type_;
  tuttiRedOp_t op_;
  bool reduces_;
  int ranks_;
  std::uint64_t seed_;
};

// Writes `number`, rounded to nearest even, as one element. REQUIRES: within the type's finite range.
void Encode(tuttiDataType_t type, double number, std::byte* element);

// Writes `count` elements to `out`: entries first, first + 1, ... (mod kPeriod) of `table`.
void Fill(const Table& table, std::size_t element_size, std::size_t first, std::size_t count, std::byte* out);
// The number of elements at `data` that differ from what Fill would write there.
std::size_t CountWrong(const Table& table, std::size_t element_size, std::size_t first, std::size_t count,
                       const std::byte* data);

}  // namespace tutti::bench
