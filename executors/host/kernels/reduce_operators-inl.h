// The operators on vectors of accumulators, and what may surround them: scaling before, dividing after. Included once
// per Highway target.
#if defined(TUTTI_HOST_REDUCE_OPERATORS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_HOST_REDUCE_OPERATORS_INL
#undef TUTTI_HOST_REDUCE_OPERATORS_INL
#else
#define TUTTI_HOST_REDUCE_OPERATORS_INL
#endif

#include <hwy/highway.h>

#include <type_traits>

#include "executors/host/kernels/reduce.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::host_kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Vector units lack these two operations, so they go lane by lane through memory.
template <class D>
HWY_INLINE hn::VFromD<D> WrappingProduct(D d, hn::VFromD<D> a, hn::VFromD<D> b) {
  using T = hn::TFromD<D>;
  HWY_ALIGN T x[hn::MaxLanes(D())];
  HWY_ALIGN T y[hn::MaxLanes(D())];
  hn::Store(a, d, x);
  hn::Store(b, d, y);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) x[i] = static_cast<T>(x[i] * y[i]);
  return hn::Load(d, x);
}

// The lanes hold the bits of Ts. The division is done in a type that holds both T and the divisor.
template <typename T, class D>
HWY_INLINE hn::VFromD<D> TruncatedQuotient(D d, hn::VFromD<D> v, int divisor) {
  using Lane = hn::TFromD<D>;
  using Wide = std::common_type_t<T, int>;
  HWY_ALIGN Lane x[hn::MaxLanes(D())];
  hn::Store(v, d, x);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) {
    x[i] = static_cast<Lane>(static_cast<Wide>(static_cast<T>(x[i])) / static_cast<Wide>(divisor));
  }
  return hn::Load(d, x);
}

struct Sum {
  template <class D>
  static HWY_INLINE hn::VFromD<D> Apply(D /*tag*/, hn::VFromD<D> a, hn::VFromD<D> b) {
    return hn::Add(a, b);
  }
};

struct Product {
  template <class D>
  static HWY_INLINE hn::VFromD<D> Apply(D d, hn::VFromD<D> a, hn::VFromD<D> b) {
    using T = hn::TFromD<D>;
    if constexpr (std::is_floating_point_v<T> || sizeof(T) == sizeof(std::uint16_t) ||
                  sizeof(T) == sizeof(std::uint32_t)) {
      return hn::Mul(a, b);
    } else {
      return WrappingProduct(d, a, b);
    }
  }
};

// T: the element's type, which for integers may be the signed counterpart of the lanes'.
template <typename T, bool kMax>
struct Extreme {
  template <class D>
  static HWY_INLINE hn::VFromD<D> Apply(D d, hn::VFromD<D> a, hn::VFromD<D> b) {
    if constexpr (std::is_floating_point_v<T>) {
      // Numbers that compare equal differ at most in a zero's sign, or are subnormals that the thread's modes take for
      // zeros: the sign decides, and the result is one of the two, whole. Where one is a NaN, `or` is a NaN.
      const hn::RebindToSigned<D> whole;
      const auto negative = hn::BitCast(d, hn::BroadcastSignBit(hn::BitCast(whole, a)));
      const auto equal = kMax ? hn::IfVecThenElse(negative, b, a) : hn::IfVecThenElse(negative, a, b);
      const auto tied = hn::IfThenElse(hn::Eq(a, b), equal, hn::Or(a, b));
      const auto unless_a = kMax ? hn::IfThenElse(hn::Gt(b, a), b, tied) : hn::IfThenElse(hn::Lt(b, a), b, tied);
      return kMax ? hn::IfThenElse(hn::Gt(a, b), a, unless_a) : hn::IfThenElse(hn::Lt(a, b), a, unless_a);
    } else {
      const hn::Rebind<T, D> typed;
      const auto x = hn::BitCast(typed, a);
      const auto y = hn::BitCast(typed, b);
      return hn::BitCast(d, kMax ? hn::Max(x, y) : hn::Min(x, y));
    }
  }
};

struct Unadjusted {
  explicit Unadjusted(const ReduceCall& /*call*/) {}

  template <class D>
  HWY_INLINE hn::VFromD<D> Scale(D /*tag*/, int /*source*/, hn::VFromD<D> v) const {
    return v;
  }
  template <class D>
  HWY_INLINE hn::VFromD<D> Divide(D /*tag*/, hn::VFromD<D> v) const {
    return v;
  }
};

// T as for Extreme.
template <class Type, typename T>
class Adjusted {
 public:
  explicit Adjusted(const ReduceCall& call)
      : scaled_(call.scaled), scalar_(Type::FromScalar(call.scalar)), divisor_(call.divisor) {}

  template <class D>
  HWY_INLINE hn::VFromD<D> Scale(D d, int source, hn::VFromD<D> v) const {
    return (scaled_ >> source & 1) != 0 ? Type::Rounded(d, Product::Apply(d, v, hn::Set(d, scalar_))) : v;
  }
  template <class D>
  HWY_INLINE hn::VFromD<D> Divide(D d, hn::VFromD<D> v) const {
    if (divisor_ <= 1) return v;
    if constexpr (std::is_floating_point_v<hn::TFromD<D>>) {
      return hn::Div(v, hn::Set(d, static_cast<hn::TFromD<D>>(divisor_)));
    } else {
      return TruncatedQuotient<T>(d, v, divisor_);
    }
  }

 private:
  std::uint64_t scaled_;
  typename Type::Lane scalar_;
  int divisor_;
};

}  // namespace HWY_NAMESPACE
}  // namespace tutti::host_kernels
HWY_AFTER_NAMESPACE();

#endif  // TUTTI_HOST_REDUCE_OPERATORS_INL
