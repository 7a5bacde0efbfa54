// Access to memory of all GPUs of a team at once, by the switch between them: instructions on a multicast address
// (PTX, "multimem"; compute capability 9.0). A load reads the same place of every GPU's memory and returns the sum, a
// store writes it everywhere. On the host, host_kernel.h says where the places are.
//
// A multicast address and a GPU's own address of the same memory are aliases, which PTX calls two proxies: FenceAliases
// stands between accesses by one and by the other, besides what orders the threads.
//
// Sums of 16-bit floats are rounded once, from 32 bits. Their order is the switch's.
//
// Thread-safety: called by device threads.
#pragma once

#include "executors/cuda/kernels/element.h"

namespace tutti::cuda_kernels {

TUTTI_DEVICE void FenceAliases() {
#if defined(__CUDA_ARCH__)
  asm volatile("fence.proxy.alias;" ::: "memory");
#endif
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
inline constexpr bool kHasMultimem = false;  // so no plan uses it
#else
inline constexpr bool kHasMultimem = true;
#endif

#if defined(__CUDACC__)

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
TUTTI_DEVICE void StoreMulticast(std::byte* to, const Vector& value) {
  asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
               "f"(__uint_as_float(value.words[0])), "f"(__uint_as_float(value.words[1])),
               "f"(__uint_as_float(value.words[2])), "f"(__uint_as_float(value.words[3]))
               : "memory");
}

// One function for each of the instruction's types, because the text of an instruction is constant.
template <typename Codec>
struct SumInSwitch;

template <>
struct SumInSwitch<Plain<float>> {
  TUTTI_DEVICE static Vector Load(std::size_t from) {
    float f[4];
    asm volatile("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(f[0]), "=f"(f[1]), "=f"(f[2]), "=f"(f[3])
                 : "l"(from)
                 : "memory");
    return {{__float_as_uint(f[0]), __float_as_uint(f[1]), __float_as_uint(f[2]), __float_as_uint(f[3])}};
  }
};
template <>
struct SumInSwitch<Low<Float16>> {
  TUTTI_DEVICE static Vector Load(std::size_t from) {
    Vector v;
    asm volatile("multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.f16x2 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.words[0]), "=r"(v.words[1]), "=r"(v.words[2]), "=r"(v.words[3])
                 : "l"(from)
                 : "memory");
    return v;
  }
};
template <>
struct SumInSwitch<Low<Bfloat16>> {
  TUTTI_DEVICE static Vector Load(std::size_t from) {
    Vector v;
    asm volatile("multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.bf16x2 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.words[0]), "=r"(v.words[1]), "=r"(v.words[2]), "=r"(v.words[3])
                 : "l"(from)
                 : "memory");
    return v;
  }
};

// Integers have no vectors.
template <typename Word>
TUTTI_DEVICE Vector VectorOf(Word (*load)(std::size_t), std::size_t from) {
  constexpr std::size_t kWords = kVectorBytes / sizeof(Word);
  Vector v;
  TUTTI_UNROLL
  for (std::size_t w = 0; w < kWords; ++w) {
    const Word word = load(from + w * sizeof(Word));
    if constexpr (sizeof(Word) == sizeof(std::uint32_t)) {
      v.words[w] = word;
    } else {
      v.words[2 * w] = static_cast<std::uint32_t>(word);
      v.words[2 * w + 1] = static_cast<std::uint32_t>(word >> 32);
    }
  }
  return v;
}
TUTTI_DEVICE std::uint32_t AddWords(std::size_t from) {
  std::uint32_t word;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.u32 %0, [%1];" : "=r"(word) : "l"(from) : "memory");
  return word;
}
TUTTI_DEVICE std::uint64_t AddLongWords(std::size_t from) {
  std::uint64_t word;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.u64 %0, [%1];" : "=l"(word) : "l"(from) : "memory");
  return word;
}
TUTTI_DEVICE std::uint64_t AddDoubles(std::size_t from) {
  double word;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f64 %0, [%1];" : "=d"(word) : "l"(from) : "memory");
  return static_cast<std::uint64_t>(__double_as_longlong(word));
}
template <>
struct SumInSwitch<Plain<std::uint32_t>> {
  TUTTI_DEVICE static Vector Load(std::size_t from) { return VectorOf(AddWords, from); }
};
template <>
struct SumInSwitch<Plain<std::uint64_t>> {
  TUTTI_DEVICE static Vector Load(std::size_t from) { return VectorOf(AddLongWords, from); }
};
template <>
struct SumInSwitch<Plain<double>> {
  TUTTI_DEVICE static Vector Load(std::size_t from) { return VectorOf(AddDoubles, from); }
};

template <typename Codec>
TUTTI_DEVICE Vector LoadSum(const std::byte* from) {
  return SumInSwitch<Codec>::Load(__cvta_generic_to_global(from));
}
#else
TUTTI_DEVICE void StoreMulticast(std::byte*, const Vector&) {}
template <typename Codec>
TUTTI_DEVICE Vector LoadSum(const std::byte*) {
  return {};
}
#endif

#else

inline void StoreMulticast(std::byte* to, const Vector& value) {
  const HostMulticast places(to);
  for (std::uint32_t i = 0; i < places.count(); ++i) *reinterpret_cast<Vector*>(places.At(i)) = value;
}
template <typename Codec>
Vector LoadSum(const std::byte* from) {
  using T = typename Codec::Memory;
  constexpr std::size_t kCount = kVectorBytes / sizeof(T);
  const HostMulticast places(from);
  Vector result;
  auto* const sums = reinterpret_cast<T*>(&result);
  for (std::size_t k = 0; k < kCount; ++k) {
    auto sum = Add::Neutral<typename Codec::Accumulator>();
    for (std::uint32_t i = 0; i < places.count(); ++i) {
      sum = Add::Combine(sum, Codec::Decode(reinterpret_cast<const T*>(places.At(i))[k]));
    }
    sums[k] = Codec::Encode(sum);
  }
  return result;
}

#endif

}  // namespace tutti::cuda_kernels
