#include "bench/worker/values.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "bench/worker/types.h"

namespace tutti::bench {
namespace {

// Steele, Lea, Flood: "Fast splittable pseudorandom number generators", the finalizer of SplitMix64.
std::uint64_t Mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

std::uint64_t Hash(std::uint64_t seed, std::uint64_t rank, std::uint64_t slot) {
  return Mix(Mix(seed ^ Mix(rank + 1)) + slot);
}

// The type represents all whole numbers up to this one exactly.
int ExactIntegers(tuttiDataType_t type) {
  switch (type) {
    case tuttiInt8: return 127;
    case tuttiUint8: return 255;
    case tuttiFloat16: return 1 << 11;
    case tuttiBfloat16: return 1 << 8;
    case tuttiFloat8e4m3: return 1 << 4;
    case tuttiFloat8e5m2: return 1 << 3;
    default: return 1 << 20;
  }
}

// The type represents two to this power exactly.
int ExactPower(tuttiDataType_t type) {
  switch (type) {
    case tuttiInt8: return 6;
    case tuttiUint8: return 7;
    case tuttiFloat16: return 14;
    case tuttiFloat8e4m3: return 7;
    case tuttiFloat8e5m2: return 14;
    default: return 20;
  }
}

// A whole number in [-limit, limit], or in [0, limit] if unsigned.
double Whole(std::uint64_t hash, int limit, bool is_signed) {
  const auto magnitude = static_cast<double>((hash >> 1) % (static_cast<std::uint64_t>(limit) + 1));
  return is_signed && (hash & 1) != 0 && magnitude != 0 ? -magnitude : magnitude;
}

// Whether `rank` is one of the `active` ranks of an entry: a cyclic run that starts at any rank.
bool IsActive(std::uint64_t slot_hash, int rank, int ranks, int active) {
  const auto n = static_cast<std::uint64_t>(ranks);
  return (static_cast<std::uint64_t>(rank) + slot_hash) % n < static_cast<std::uint64_t>(active);
}

constexpr std::uint64_t kEveryRank = ~std::uint64_t{1};  // for hashes of an entry rather than of a rank's entry

// IEEE-like: exponents below the normal range share the smallest quantum, which yields subnormals without extra code.
std::uint32_t SmallFloat(double number, int exponent_bits, int mantissa_bits) {
  const std::uint32_t sign = std::signbit(number) ? 1u << (exponent_bits + mantissa_bits) : 0u;
  const double magnitude = std::fabs(number);
  if (magnitude == 0) return sign;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  const auto quanta = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent)));
  return sign | ((static_cast<std::uint32_t>(exponent + bias - 1) << mantissa_bits) + quanta);
}

template <typename T>
void Put(T value, std::byte* element) {
  std::memcpy(element, &value, sizeof value);
}

template <typename Table, typename Visit>
void ForEachRun(const Table& table, std::size_t element_size, std::size_t first, std::size_t count, Visit visit) {
  std::size_t slot = first % kPeriod;
  for (std::size_t done = 0; done < count;) {
    const std::size_t run = std::min(kPeriod - slot, count - done);
    visit(table.data() + slot * element_size, done, run);
    done += run;
    slot = 0;
  }
}

}  // namespace

void Encode(tuttiDataType_t type, double number, std::byte* element) {
  switch (type) {
    case tuttiInt8: return Put(static_cast<std::int8_t>(number), element);
    case tuttiUint8: return Put(static_cast<std::uint8_t>(number), element);
    case tuttiInt32: return Put(static_cast<std::int32_t>(number), element);
    case tuttiUint32: return Put(static_cast<std::uint32_t>(number), element);
    case tuttiInt64: return Put(static_cast<std::int64_t>(number), element);
    case tuttiUint64: return Put(static_cast<std::uint64_t>(number), element);
    case tuttiFloat16: return Put(static_cast<std::uint16_t>(SmallFloat(number, 5, 10)), element);
    case tuttiBfloat16: return Put(static_cast<std::uint16_t>(SmallFloat(number, 8, 7)), element);
    case tuttiFloat8e4m3: return Put(static_cast<std::uint8_t>(SmallFloat(number, 4, 3)), element);
    case tuttiFloat8e5m2: return Put(static_cast<std::uint8_t>(SmallFloat(number, 5, 2)), element);
    case tuttiFloat32: return Put(static_cast<float>(number), element);
    case tuttiFloat64: return Put(number, element);
    case tuttiNumTypes: std::abort();
  }
}

Values::Values(tuttiDataType_t type, tuttiRedOp_t op, bool reduces, int ranks, std::uint64_t seed)
    : type_(type), op_(op), reduces_(reduces), ranks_(ranks), seed_(seed) {}

// Ranks share the exact range; if there are more ranks than numbers in it, only some of them contribute.
double Values::SummandOf(int rank, std::size_t slot) const {
  const int limit = ExactIntegers(type_);
  const int active = std::min(ranks_, limit);
  if (!IsActive(Hash(seed_, kEveryRank, slot), rank, ranks_, active)) return 0;
  constexpr int kLargest = 1000;  // keeps the numbers readable in a debugger
  return Whole(Hash(seed_, static_cast<std::uint64_t>(rank), slot), std::min(limit / active, kLargest),
               IsSigned(type_));
}

// A common value plus differences that cancel in pairs. The sum is then a multiple of the number of ranks, so the
// quotient is exact however it is computed. Common values and differences each get half of the exact range, whatever
// the order of addition. Types too small for that use the plain summands, whose quotients are never near a rounding
// boundary of so small a type.
double Values::AverageSummandOf(int rank, std::size_t slot) const {
  const int limit = ExactIntegers(type_);
  const int share = limit / (2 * ranks_);
  if (!IsFloat(type_) || share == 0) return SummandOf(rank, slot);
  const double common = Whole(Hash(seed_, kEveryRank, slot), share, true);
  const bool has_partner = (rank ^ 1) < ranks_;
  const double difference =
      has_partner ? Whole(Hash(seed_, static_cast<std::uint64_t>(rank & ~1), slot), share, true) : 0;
  return (rank & 1) != 0 ? common - difference : common + difference;
}

double Values::FactorOf(int rank, std::size_t slot) const {
  const std::uint64_t hash = Hash(seed_, static_cast<std::uint64_t>(rank), slot);
  const int active = std::min(ranks_, ExactPower(type_));
  const bool doubles = (hash & 2) != 0 && IsActive(Hash(seed_, kEveryRank, slot), rank, ranks_, active);
  const double magnitude = doubles ? 2 : 1;
  return IsSigned(type_) && (hash & 1) != 0 ? -magnitude : magnitude;
}

double Values::InputNumber(int rank, std::size_t slot) const {
  switch (op_) {
    case tuttiSum: return SummandOf(rank, slot);
    case tuttiProd: return FactorOf(rank, slot);
    case tuttiAvg: return AverageSummandOf(rank, slot);
    default: return Whole(Hash(seed_, static_cast<std::uint64_t>(rank), slot), ExactIntegers(type_), IsSigned(type_));
  }
}

double Values::ReducedNumber(std::size_t slot) const {
  double result = InputNumber(0, slot);
  for (int rank = 1; rank < ranks_; ++rank) {
    const double number = InputNumber(rank, slot);
    switch (op_) {
      case tuttiProd: result *= number; break;
      case tuttiMax: result = std::max(result, number); break;
      case tuttiMin: result = std::min(result, number); break;
      default: result += number; break;
    }
  }
  if (op_ != tuttiAvg) return result;
  if (!IsFloat(type_)) return std::trunc(result / ranks_);
  return type_ == tuttiFloat64 ? result / ranks_ : static_cast<float>(result) / static_cast<float>(ranks_);
}

Table Values::Input(int rank) const {
  const std::size_t size = SizeOf(type_);
  Table table(kPeriod * size);
  for (std::size_t slot = 0; slot < kPeriod; ++slot) {
    std::byte* const element = table.data() + slot * size;
    if (reduces_) {
      Encode(type_, InputNumber(rank, slot), element);
    } else {
      const std::uint64_t bits = Hash(seed_, static_cast<std::uint64_t>(rank), slot);
      std::memcpy(element, &bits, size);
    }
  }
  return table;
}

Table Values::Reduced() const {
  const std::size_t size = SizeOf(type_);
  Table table(kPeriod * size);
  for (std::size_t slot = 0; slot < kPeriod; ++slot) Encode(type_, ReducedNumber(slot), table.data() + slot * size);
  return table;
}

void Fill(const Table& table, std::size_t element_size, std::size_t first, std::size_t count, std::byte* out) {
  ForEachRun(table, element_size, first, count, [&](const std::byte* entries, std::size_t done, std::size_t run) {
    std::memcpy(out + done * element_size, entries, run * element_size);
  });
}

std::size_t CountWrong(const Table& table, std::size_t element_size, std::size_t first, std::size_t count,
                       const std::byte* data) {
  std::size_t wrong = 0;
  ForEachRun(table, element_size, first, count, [&](const std::byte* entries, std::size_t done, std::size_t run) {
    const std::byte* const actual = data + done * element_size;
    if (std::memcmp(entries, actual, run * element_size) == 0) return;
    for (std::size_t i = 0; i < run; ++i) {
      wrong += std::memcmp(entries + i * element_size, actual + i * element_size, element_size) != 0;
    }
  });
  return wrong;
}

}  // namespace tutti::bench
