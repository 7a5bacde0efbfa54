// Shared by the reduction tests: a plain loop over elements written from the definitions, inputs, guarded outputs.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "base/numbers/datatype.h"
#include "base/numbers/lowp.h"
#include "executors/host/kernels/reduce.h"

namespace tutti::host_kernels {

inline constexpr std::size_t kMaxCount = 4099;
inline constexpr tuttiRedOp_t kOps[] = {tuttiSum, tuttiProd, tuttiMax, tuttiMin};

// ------------------------------------------------------------------------------------------------ the plain reference
// --

// Volatile, so that no compiler contracts a product and a sum.
template <typename A>
A Times(A a, A b) {
  volatile A product = static_cast<A>(a * b);
  return product;
}

template <typename A>
A Combined(tuttiRedOp_t op, A a, A b) {
  if constexpr (std::is_floating_point_v<A>) {
    if (op == tuttiMax || op == tuttiMin) {
      if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<A>::quiet_NaN();
      const bool max = op == tuttiMax;
      if (a == b) return std::signbit(a) == max ? b : a;
      return (a < b) == max ? b : a;
    }
    return op == tuttiSum ? a + b : Times(a, b);
  } else {
    using U = std::make_unsigned_t<A>;
    switch (op) {
      case tuttiSum: return static_cast<A>(static_cast<U>(a) + static_cast<U>(b));
      case tuttiProd: return static_cast<A>(static_cast<U>(a) * std::uint64_t{static_cast<U>(b)});
      case tuttiMax: return std::max(a, b);
      default: return std::min(a, b);
    }
  }
}

template <typename T>
struct Itself {
  using Memory = T;
  using Accumulator = T;
  static T Decode(T x) { return x; }
  static T Encode(T x) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(x)) return std::numeric_limits<T>::quiet_NaN();
    }
    return x;
  }
};

template <typename Format>
struct Lowp {
  using Memory = typename Format::Storage;
  using Accumulator = float;
  static float Decode(Memory x) { return ToFloat<Format>(x); }
  static Memory Encode(float x) { return FromFloat<Format>(x); }
};

struct Adjustment {
  std::uint64_t scaled = 0;
  int divisor = 0;
};

template <typename C>
typename C::Memory ReferenceElement(tuttiRedOp_t op, const std::vector<const void*>& sources, std::size_t i,
                                    const Scalar& scalar, const Adjustment& adjust) {
  using A = typename C::Accumulator;
  const auto load = [](const void* p, std::size_t at) {
    typename C::Memory x;
    std::memcpy(&x, static_cast<const std::byte*>(p) + at * sizeof(x), sizeof(x));
    return C::Decode(x);
  };
  const A factor = load(scalar.bytes.data(), 0);
  const auto contribution = [&](std::size_t s) {
    const A x = load(sources[s], i);
    if ((adjust.scaled >> s & 1) == 0) return x;
    return C::Decode(C::Encode(Combined<A>(tuttiProd, x, factor)));
  };
  A sum = contribution(0);
  for (std::size_t s = 1; s < sources.size(); ++s) sum = Combined<A>(op, sum, contribution(s));
  if (adjust.divisor > 1) {
    using Wide = std::common_type_t<A, std::conditional_t<std::is_floating_point_v<A>, A, int>>;
    sum = static_cast<A>(static_cast<Wide>(sum) / static_cast<Wide>(adjust.divisor));
  }
  return C::Encode(sum);
}

template <typename F>
auto WithCodec(tuttiDataType_t type, F f) {
  return VisitDataType(type, [&]<typename Element>(std::type_identity<Element>) {
    if constexpr (kIsFormat<Element>) {
      return f(Lowp<Element>());
    } else {
      return f(Itself<Element>());
    }
  });
}

inline std::vector<std::byte> Reference(tuttiDataType_t type, tuttiRedOp_t op, const std::vector<const void*>& sources,
                                        std::size_t count, const Scalar& scalar = {}, const Adjustment& adjust = {}) {
  std::vector<std::byte> result(count * SizeOf(type));
  WithCodec(type, [&]<typename C>(C) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto element = ReferenceElement<C>(op, sources, i, scalar, adjust);
      std::memcpy(result.data() + i * sizeof(element), &element, sizeof(element));
    }
  });
  return result;
}

// ------------------------------------------------------------------------------------------------------------- inputs
// --

// Numbers of moderate size, so that sums and products stay numbers, and now and then any bits at all: NaN, infinities,
// zeros of both signs, subnormals. Integers are any bits.
inline void Fill(tuttiDataType_t type, std::byte* to, std::size_t count, std::mt19937_64& random) {
  constexpr int kOneInThatManyIsWild = 256;
  WithCodec(type, [&]<typename C>(C) {
    for (std::size_t i = 0; i < count; ++i) {
      typename C::Memory element;
      const std::uint64_t bits = random();
      if (!IsFloat(type) || bits % kOneInThatManyIsWild == 0) {
        const std::uint64_t any = random();
        std::memcpy(&element, &any, sizeof(element));
      } else if (bits % kOneInThatManyIsWild == 1) {
        element = C::Encode((bits >> 32 & 1) != 0 ? typename C::Accumulator(0) : -typename C::Accumulator(0));
      } else {
        const double magnitude =
            std::ldexp(1.0 + static_cast<double>(random() >> 12) * 0x1p-52, static_cast<int>(bits >> 40 & 3) - 2);
        element = C::Encode(static_cast<typename C::Accumulator>((bits >> 32 & 1) != 0 ? -magnitude : magnitude));
      }
      std::memcpy(to + i * sizeof(element), &element, sizeof(element));
    }
  });
}

// Sources of kMaxCount elements, each at its own misalignment.
class Sources {
 public:
  Sources(tuttiDataType_t type, int count, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (int s = 0; s < count; ++s) {
      const std::size_t offset = (s * 5 + 3) % 16 * SizeOf(type);
      storage_.emplace_back(offset + kMaxCount * SizeOf(type));
      Fill(type, storage_.back().data() + offset, kMaxCount, random);
      pointers_.push_back(storage_.back().data() + offset);
    }
    originals_ = storage_;
  }

  const std::vector<const void*>& pointers() const { return pointers_; }
  // Restores sources that an in-place reduction overwrote.
  void Restore() {
    for (std::size_t s = 0; s < storage_.size(); ++s)
      std::copy(originals_[s].begin(), originals_[s].end(), storage_[s].begin());
  }
  void* at(int s) { return const_cast<void*>(pointers_[s]); }

 private:
  std::vector<std::vector<std::byte>> storage_;
  std::vector<std::vector<std::byte>> originals_;
  std::vector<const void*> pointers_;
};

// A destination that detects writes around it, `offset_bytes` past the start of a cache line.
class Destination {
 public:
  Destination(std::size_t bytes, std::size_t offset_bytes)
      : bytes_(bytes), storage_(bytes + offset_bytes + 3 * kGuard, kPaint) {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    data_ = storage_.data() + (-address % kGuard) + kGuard + offset_bytes;
  }

  void* data() { return data_; }
  bool GuardsIntact() const {
    const auto painted = [](std::byte b) { return b == kPaint; };
    return std::all_of(data_ - kGuard, data_, painted) && std::all_of(data_ + bytes_, data_ + bytes_ + kGuard, painted);
  }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr std::byte kPaint{0xa5};
  std::size_t bytes_;
  std::vector<std::byte> storage_;
  std::byte* data_;
};

inline ReduceCall CallFor(const std::vector<const void*>& sources, void* const* destinations, int destination_count,
                          std::size_t count) {
  ReduceCall call;
  call.sources = sources.data();
  call.source_count = static_cast<int>(sources.size());
  call.destinations = destinations;
  call.destination_count = destination_count;
  call.count = count;
  return call;
}

}  // namespace tutti::host_kernels
