// The loops of a reduction. Included once per Highway target.
//
//   |<- head ->|<- block ->|<- block ->| ... |<- block ->|<- tail ->|
//              ^ the first streamed destination (else the first) is aligned here, where it can be
//
// A block is a few vectors: each source is added to a block of accumulators held in registers, then the block is
// written to every destination; so memory is passed over once, whatever the number of sources. Head, tail and short
// calls go down a ladder of vectors of N, N/2, ... 1 lanes, each lane computed exactly as in a block.
#if defined(TUTTI_HOST_REDUCE_KERNEL_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_HOST_REDUCE_KERNEL_INL
#undef TUTTI_HOST_REDUCE_KERNEL_INL
#else
#define TUTTI_HOST_REDUCE_KERNEL_INL
#endif

#include <algorithm>
#include <bit>

#include "executors/host/kernels/reduce_operators-inl.h"
#include "executors/host/kernels/reduce_types-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::host_kernels {
namespace HWY_NAMESPACE {

// The call's pointers as the type's own, by value: the compiler may keep them in registers over the stores.
template <class Type>
struct Operands {
  using Element = typename Type::Element;

  explicit HWY_INLINE Operands(const ReduceCall& call)
      : sources(call.sources),
        source_count(call.source_count),
        destinations(call.destinations),
        destination_count(call.destination_count) {}

  HWY_INLINE const Element* Source(int s) const { return static_cast<const Element*>(sources[s]); }
  HWY_INLINE Element* Destination(int t) const { return static_cast<Element*>(destinations[t]); }

  const void* const* const sources;
  const int source_count;
  void* const* const destinations;
  const int destination_count;
};

// Lanes(d) elements at i, all sources and destinations.
template <class Type, class Op, class Adjust, class D>
HWY_INLINE void Step(const Operands<Type> at, const Adjust& adjust, D d, std::size_t i) {
  auto sum = adjust.Scale(d, 0, Type::Load(d, at.Source(0) + i));
  for (int s = 1; s < at.source_count; ++s) {
    sum = Op::Apply(d, sum, adjust.Scale(d, s, Type::Load(d, at.Source(s) + i)));
  }
  const auto packed = Type::Pack(d, adjust.Divide(d, sum));
  const hn::Rebind<typename Type::Element, D> elements;
  for (int t = 0; t < at.destination_count; ++t) hn::StoreU(packed, elements, at.Destination(t) + i);
}

// The rungs below a full vector: fewer than 2 * kLanes elements are left, as the bits of `left` say.
template <class Type, class Op, std::size_t kLanes, class Adjust>
HWY_INLINE void Rungs(const Operands<Type> at, const Adjust& adjust, std::size_t i, std::size_t left) {
  if constexpr (kLanes > 0) {
    if ((left & kLanes) != 0) {
      Step<Type, Op>(at, adjust, hn::CappedTag<typename Type::Lane, kLanes>(), i);
      i += kLanes;
    }
    Rungs<Type, Op, kLanes / 2>(at, adjust, i, left);
  }
}

template <class Type, class Op, class Adjust>
HWY_NOINLINE void Ladder(const ReduceCall& call, const Adjust& adjust, std::size_t i, std::size_t end) {
  using D = hn::ScalableTag<typename Type::Lane>;
  constexpr std::size_t kLanes = hn::MaxLanes(D());
  const Operands<Type> at(call);
  for (; i + kLanes <= end; i += kLanes) Step<Type, Op>(at, adjust, D(), i);
  Rungs<Type, Op, kLanes / 2>(at, adjust, i, end - i);
}

#if HWY_TARGET != HWY_SCALAR  // whose ladder is one loop and does all the work

// Vectors of accumulators in a block: enough to hide the latency of an addition and to pay for the loop over the
// sources, few enough that they stay in x86's sixteen registers. Conversions need registers too.
template <class Type>
inline constexpr std::size_t kBlockVectors = Type::kRatio == 1 ? 8 : 4;

template <class Type>
struct Block {
  using Element = typename Type::Element;
  using D = hn::ScalableTag<typename Type::Lane>;
  using Elements = hn::Repartition<Element, D>;
  using V = hn::VFromD<D>;
  using Packed = hn::VFromD<Elements>;
  static constexpr std::size_t kLanes = hn::MaxLanes(Elements());
  static constexpr std::size_t kParts = kBlockVectors<Type> / Type::kRatio;  // full vectors of elements
  static constexpr std::size_t kVectors = kParts * Type::kRatio;
  static constexpr std::size_t kCount = kParts * kLanes;  // elements

  static HWY_INLINE void Load(const Element* from, V* v) {
    for (std::size_t part = 0; part < kParts; ++part) {
      Type::LoadWide(D(), from + part * kLanes, v + part * Type::kRatio);
    }
  }
  static HWY_INLINE void Pack(const V* v, Packed* packed) {
    for (std::size_t part = 0; part < kParts; ++part) packed[part] = Type::PackWide(D(), v + part * Type::kRatio);
  }
  static HWY_INLINE void Store(const Packed* packed, Element* to) {
    for (std::size_t part = 0; part < kParts; ++part) hn::StoreU(packed[part], Elements(), to + part * kLanes);
  }
  static HWY_INLINE void Stream(const Packed* packed, Element* to) {
    for (std::size_t part = 0; part < kParts; ++part) hn::Stream(packed[part], Elements(), to + part * kLanes);
  }
};

// Blocks from i on while they fit; returns the element behind the last. `streamed` is call.streamed less the
// destinations that are not aligned at i.
template <class Type, class Op, class Adjust>
HWY_INLINE std::size_t Blocks(const ReduceCall& call, const Adjust& adjust, std::size_t i, std::uint32_t streamed) {
  using B = Block<Type>;
  const typename B::D d;
  const Operands<Type> at(call);
  const std::size_t count = call.count;
  typename B::V sum[B::kVectors];
  typename B::V next[B::kVectors];
  typename B::Packed packed[B::kParts];
  for (; i + B::kCount <= count; i += B::kCount) {
    B::Load(at.Source(0) + i, sum);
    for (auto& v : sum) v = adjust.Scale(d, 0, v);
    for (int s = 1; s < at.source_count; ++s) {
      B::Load(at.Source(s) + i, next);
      for (std::size_t k = 0; k < B::kVectors; ++k) sum[k] = Op::Apply(d, sum[k], adjust.Scale(d, s, next[k]));
    }
    for (auto& v : sum) v = adjust.Divide(d, v);
    B::Pack(sum, packed);
    for (int t = 0; t < at.destination_count; ++t) {
      if ((streamed >> t & 1) != 0) {
        B::Stream(packed, at.Destination(t) + i);
      } else {
        B::Store(packed, at.Destination(t) + i);
      }
    }
  }
  return i;
}

// The same for a number of sources known to the compiler, one destination and nothing to adjust.
template <class Type, class Op, int kSources, bool kStream>
HWY_NOINLINE std::size_t FixedBlocks(const ReduceCall& call, std::size_t i) {
  using B = Block<Type>;
  const typename B::D d;
  const typename B::Element* sources[kSources];
  const Operands<Type> at(call);
  for (int s = 0; s < kSources; ++s) sources[s] = at.Source(s);
  auto* const destination = at.Destination(0);
  const std::size_t count = call.count;
  typename B::V sum[B::kVectors];
  typename B::V next[B::kVectors];
  typename B::Packed packed[B::kParts];
  for (; i + B::kCount <= count; i += B::kCount) {
    B::Load(sources[0] + i, sum);
    for (int s = 1; s < kSources; ++s) {
      B::Load(sources[s] + i, next);
      for (std::size_t k = 0; k < B::kVectors; ++k) sum[k] = Op::Apply(d, sum[k], next[k]);
    }
    B::Pack(sum, packed);
    if constexpr (kStream) {
      B::Stream(packed, destination + i);
    } else {
      B::Store(packed, destination + i);
    }
  }
  return i;
}

template <class Type, class Op, int kSources>
std::size_t FixedBlocks(const ReduceCall& call, std::size_t i, std::uint32_t streamed) {
  return streamed != 0 ? FixedBlocks<Type, Op, kSources, true>(call, i)
                       : FixedBlocks<Type, Op, kSources, false>(call, i);
}

template <class Type, class Op, class Adjust>
std::size_t ChooseBlocks(const ReduceCall& call, const Adjust& adjust, std::size_t i, std::uint32_t streamed) {
  // For 8-bit floats, conversions cost far more than the loop.
  constexpr bool kWorthIt = std::is_same_v<Op, Sum> && std::is_same_v<Adjust, Unadjusted> && Type::kRatio < 4;
  if constexpr (kWorthIt) {
    if (call.destination_count == 1) {
      switch (call.source_count) {
        case 2: return FixedBlocks<Type, Op, 2>(call, i, streamed);
        case 3: return FixedBlocks<Type, Op, 3>(call, i, streamed);
        case 4: return FixedBlocks<Type, Op, 4>(call, i, streamed);
        case 8: return FixedBlocks<Type, Op, 8>(call, i, streamed);
        default: break;
      }
    }
  }
  return Blocks<Type, Op>(call, adjust, i, streamed);
}

// Streamed destinations are aligned to cache lines, so that the write-combining buffers leave whole.
inline constexpr std::size_t kLineBytes = 64;

// From here on, whole-vector stores that never straddle two cache lines repay the steps to the first of them.
inline constexpr std::size_t kMinAlignedBytes = 2048;

template <class Type>
std::size_t HeadCount(const ReduceCall& call) {
  const int leader = call.streamed != 0 ? std::countr_zero(call.streamed) : 0;
  const std::size_t alignment = call.streamed != 0 ? kLineBytes : HWY_MAX_BYTES;
  const auto address = reinterpret_cast<std::uintptr_t>(call.destinations[leader]);
  return (-address & (alignment - 1)) / sizeof(typename Type::Element);
}

template <class Type>
std::uint32_t AlignedAt(const ReduceCall& call, std::size_t i) {
  std::uint32_t aligned = 0;
  for (int t = 0; t < call.destination_count; ++t) {
    const auto address = reinterpret_cast<std::uintptr_t>(Operands<Type>(call).Destination(t) + i);
    aligned |= static_cast<std::uint32_t>(address % HWY_MAX_BYTES == 0) << t;
  }
  return aligned;
}
#endif  // HWY_TARGET != HWY_SCALAR

template <class Type, class Op, class Adjust>
HWY_INLINE void Reduce(const ReduceCall& call) {
  const Adjust adjust(call);
#if HWY_TARGET == HWY_SCALAR
  Ladder<Type, Op>(call, adjust, 0, call.count);
#else
  if (call.count < Block<Type>::kCount) return Ladder<Type, Op>(call, adjust, 0, call.count);
  std::size_t head = 0;
  if (call.streamed != 0 || call.count * sizeof(typename Type::Element) >= kMinAlignedBytes) {
    head = std::min(HeadCount<Type>(call), call.count);
    if (head != 0) Ladder<Type, Op>(call, adjust, 0, head);
  }
  const std::uint32_t streamed = call.streamed == 0 ? 0 : call.streamed & AlignedAt<Type>(call, head);
  const std::size_t tail = ChooseBlocks<Type, Op>(call, adjust, head, streamed);
  if (tail != call.count) Ladder<Type, Op>(call, adjust, tail, call.count);
#endif
}

template <class Type, class Op>
void Reduce(const ReduceCall& call) {
  Reduce<Type, Op, Unadjusted>(call);
}

// T: the element's type if it is native, else any non-integer type.
template <class Type, typename T>
void ReduceSum(const ReduceCall& call) {
  if (call.scaled == 0 && call.divisor <= 1) {
    Reduce<Type, Sum, Unadjusted>(call);
  } else {
    Reduce<Type, Sum, Adjusted<Type, T>>(call);
  }
}

template <class Type, typename T>
ReduceFunction FunctionFor(tuttiRedOp_t op) {
  switch (op) {
    case tuttiProd: return &Reduce<Type, Product>;
    case tuttiMax: return &Reduce<Type, Extreme<T, true>>;
    case tuttiMin: return &Reduce<Type, Extreme<T, false>>;
    default: return &ReduceSum<Type, T>;
  }
}

// REQUIRES: the type is of the group.
template <Group kGroup>
ReduceFunction FunctionOf(tuttiDataType_t type, tuttiRedOp_t op) {
  return VisitDataType(type, [op]<typename Element>(std::type_identity<Element>) -> ReduceFunction {
    if constexpr (GroupOf<Element>() != kGroup) {
      return nullptr;
    } else if constexpr (kIsFormat<Element>) {
      return FunctionFor<Small<Element>, float>(op);
    } else if constexpr (std::is_integral_v<Element>) {
      return FunctionFor<Native<std::make_unsigned_t<Element>>, Element>(op);
    } else {
      return FunctionFor<Native<Element>, Element>(op);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti::host_kernels
HWY_AFTER_NAMESPACE();

#endif  // TUTTI_HOST_REDUCE_KERNEL_INL
