#include "bench/worker/values.h"

#include <algorithm>
#include <bit>
#include <climits>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/numbers/datatype.h"

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

// The bits of a float.
struct Fields {
  int exponent, mantissa;

  int bias() const { return (1 << (exponent - 1)) - 1; }
};

// REQUIRES: IsFloat(type).
Fields FieldsOf(tuttiDataType_t type) {
  const int mantissa = VisitDataType(type, []<typename Element>(std::type_identity<Element>) {
    if constexpr (kIsFormat<Element>) {
      return Element::kMantissaBits;
    } else {
      return std::numeric_limits<Element>::digits - 1;
    }
  });
  return {static_cast<int>(SizeOf(type)) * CHAR_BIT - 1 - mantissa, mantissa};
}

constexpr int kEnoughBits = 20;  // for numbers that a double and every longer type than 16 bits represent exactly

// The type represents all whole numbers of so many bits exactly.
int ExactBits(tuttiDataType_t type) {
  const int bits = IsFloat(type) ? FieldsOf(type).mantissa + 1
                                 : static_cast<int>(SizeOf(type)) * CHAR_BIT - (IsSigned(type) ? 1 : 0);
  return std::min(bits, kEnoughBits);
}

// The type represents all whole numbers up to this one exactly.
int ExactIntegers(tuttiDataType_t type) { return (1 << ExactBits(type)) - (IsFloat(type) ? 0 : 1); }

// The type represents two to this power exactly.
int ExactPower(tuttiDataType_t type) {
  return IsFloat(type) ? std::min(FieldsOf(type).bias(), kEnoughBits) : ExactBits(type) - 1;
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
std::uint64_t FloatBits(double number, const Fields& fields) {
  const std::uint64_t sign = std::uint64_t{std::signbit(number)} << (fields.exponent + fields.mantissa);
  const double magnitude = std::fabs(number);
  if (magnitude == 0) return sign;
  const int exponent = std::max(std::ilogb(magnitude), 1 - fields.bias());
  const auto quanta = static_cast<std::uint64_t>(std::nearbyint(std::ldexp(magnitude, fields.mantissa - exponent)));
  return sign | ((static_cast<std::uint64_t>(exponent + fields.bias() - 1) << fields.mantissa) + quanta);
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
  const auto bits =
      IsFloat(type) ? FloatBits(number, FieldsOf(type)) : static_cast<std::uint64_t>(static_cast<std::int64_t>(number));
  static_assert(std::endian::native == std::endian::little, "the first bytes are the low ones");
  std::memcpy(element, &bits, SizeOf(type));
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
  return SizeOf(type_) > sizeof(float) ? result / ranks_ : static_cast<float>(result) / static_cast<float>(ranks_);
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
