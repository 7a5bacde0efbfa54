// Every kernel against a plain loop over elements written from the definitions, bit by bit, on every Highway target
// that this machine can run.
#include "executors/host/kernels/reduce.h"

#include <gtest/gtest.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/numbers/datatype.h"
#include "base/numbers/lowp.h"
#include "executors/host/kernels/copy.h"
#include "executors/host/kernels/reduce_reference.h"
#include "executors/host/kernels/simd_testing.h"

namespace tutti::host_kernels {
namespace {

class ReduceTest : public OnEachTarget, public ::testing::WithParamInterface<int> {
 protected:
  tuttiDataType_t type() const { return static_cast<tuttiDataType_t>(GetParam()); }
};

std::string TypeName(const ::testing::TestParamInfo<int>& info) {
  return std::string(NameOf(static_cast<tuttiDataType_t>(info.param)));
}

INSTANTIATE_TEST_SUITE_P(Types, ReduceTest, ::testing::Range(0, static_cast<int>(tuttiNumTypes)), TypeName);

using ReduceSmallFloatTest = ReduceTest;

INSTANTIATE_TEST_SUITE_P(Types, ReduceSmallFloatTest,
                         ::testing::Values(tuttiFloat16, tuttiBfloat16, tuttiFloat8e4m3, tuttiFloat8e5m2), TypeName);

std::string Describe(std::int64_t target, tuttiRedOp_t op, std::size_t sources, std::size_t count) {
  return std::string(hwy::TargetName(target)) + " " + std::string(NameOf(op)) + " sources " + std::to_string(sources) +
         " count " + std::to_string(count);
}

// -------------------------------------------------------------------------------------------------------------- tests
// --

TEST_P(ReduceTest, EveryCountSourceCountAndOp) {
  const std::size_t size = SizeOf(type());
  std::vector<std::size_t> counts = {127, 1000, 2048 / size + 1, kMaxCount};
  for (std::size_t count = 0; count <= 70; ++count) counts.push_back(count);
  for (const auto op : kOps) {
    for (const int source_count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 64}) {
      const Sources sources(type(), source_count, source_count);
      const auto expected = Reference(type(), op, sources.pointers(), kMaxCount);
      for (const auto target : Targets()) {
        ForceTargets(target);
        const ReduceFunction reduce = SelectReduce(type(), op);
        for (const std::size_t count : counts) {
          Destination destination(count * size, count % 9 * size);
          void* const pointer = destination.data();
          reduce(CallFor(sources.pointers(), &pointer, 1, count));
          ASSERT_EQ(std::memcmp(pointer, expected.data(), count * size), 0)
              << Describe(target, op, source_count, count);
          ASSERT_TRUE(destination.GuardsIntact()) << Describe(target, op, source_count, count);
        }
      }
    }
  }
}

#if defined(__SSE2__) || defined(__aarch64__)
// The register with a thread's floating-point modes, and the bits that flush subnormals: those read, those written.
#if defined(__SSE2__)
constexpr std::array<std::uint64_t, 2> kFlushing = {0x40, 0x8000};
std::uint64_t Modes() { return _mm_getcsr(); }
void SetModes(std::uint64_t modes) { _mm_setcsr(static_cast<unsigned>(modes)); }
#else  // both at once; and those of 16-bit floats
constexpr std::array<std::uint64_t, 2> kFlushing = {1 << 24, 1 << 19};
std::uint64_t Modes() {
  std::uint64_t modes;
  asm volatile("mrs %0, fpcr" : "=r"(modes));
  return modes;
}
void SetModes(std::uint64_t modes) { asm volatile("msr fpcr, %0" : : "r"(modes) : "memory"); }
#endif

// A thread that takes denormals for zeros (as programs built with -ffast-math do) compares two of them as equal. Their
// minimum and maximum must still be one of the elements, or a zero.
TEST_P(ReduceTest, ExtremesOfSubnormalsAreOnesThatWereContributed) {
  if (!IsFloat(type())) GTEST_SKIP() << "floats only";
  constexpr std::size_t kCount = 67;
  const std::size_t size = SizeOf(type());
  std::vector<std::vector<std::byte>> contributions(3, std::vector<std::byte>(kCount * size));
  std::mt19937_64 random(5);
  for (auto& each : contributions) {
    for (std::size_t i = 0; i < kCount; ++i) {
      // Subnormals and zeros of both signs: the exponent's bits are 0.
      const std::size_t mantissa_bits = size == 8                   ? 52
                                        : size == 4                 ? 23
                                        : type() == tuttiFloat16    ? 10
                                        : size == 2                 ? 7
                                        : type() == tuttiFloat8e4m3 ? 3
                                                                    : 2;
      const auto bits = random();
      const std::uint64_t element =
          (bits >> 8 & ((std::uint64_t{1} << mantissa_bits) - 1) & (bits % 8 == 0 ? 0 : ~std::uint64_t{0})) |
          (bits >> 7 & 1) << (8 * size - 1);
      std::memcpy(each.data() + i * size, &element, size);
    }
  }
  const std::vector<const void*> sources = {contributions[0].data(), contributions[1].data(), contributions[2].data()};
  for (const auto op : {tuttiMin, tuttiMax}) {
    for (const auto target : Targets()) {
      ForceTargets(target);
      const ReduceFunction reduce = SelectReduce(type(), op);
      std::vector<std::byte> result(kCount * size);
      void* const pointer = result.data();
      const auto before = Modes();
      for (const std::uint64_t modes : {std::uint64_t{0}, kFlushing[0], kFlushing[1], kFlushing[0] | kFlushing[1]}) {
        SetModes(before | modes);
        reduce(CallFor(sources, &pointer, 1, kCount));
        const auto expected = Reference(type(), op, sources, kCount);
        SetModes(before);
        for (std::size_t i = 0; i < kCount; ++i) {
          const auto* const got = result.data() + i * size;
          bool known = false;
          for (const auto& each : contributions) known = known || std::memcmp(got, each.data() + i * size, size) == 0;
          std::uint64_t bits = 0;
          std::memcpy(&bits, got, size);
          ASSERT_TRUE(known || (bits & ~(std::uint64_t{1} << (8 * size - 1))) == 0)
              << Describe(target, op, 3, kCount) << ", modes " << modes << ", element " << i << ": " << bits;
        }
        EXPECT_EQ(result, expected) << Describe(target, op, 3, kCount) << ", modes " << modes;
      }
    }
  }
}
#endif

TEST_P(ReduceTest, DestinationsStreamedAndInPlaceAtEveryAlignment) {
  const std::size_t size = SizeOf(type());
  for (const auto op : {tuttiSum, tuttiMax}) {
    for (const int source_count : {2, 3, 8, 9}) {
      Sources sources(type(), source_count, source_count);
      const auto expected = Reference(type(), op, sources.pointers(), kMaxCount);
      const auto check = [&](ReduceFunction reduce, std::size_t count, int destination_count, std::uint32_t streamed) {
        sources.Restore();
        std::vector<Destination> owned;
        std::vector<void*> pointers;
        for (int t = 0; t < destination_count; ++t) owned.emplace_back(count * size, (t * 3 + streamed) % 17 * size);
        for (auto& destination : owned) pointers.push_back(destination.data());
        // Two of them in place: the first source, and the last.
        if (streamed % 2 == 0) pointers.back() = sources.at(0);
        if (streamed % 3 == 0 && destination_count > 1) pointers.front() = sources.at(source_count - 1);
        auto call = CallFor(sources.pointers(), pointers.data(), destination_count, count);
        call.streamed = streamed;
        reduce(call);
        StreamFence();
        for (int t = 0; t < destination_count; ++t) {
          EXPECT_EQ(std::memcmp(pointers[t], expected.data(), count * size), 0)
              << "destination " << t << " of " << destination_count << " streamed " << streamed;
          EXPECT_TRUE(owned[t].GuardsIntact()) << "destination " << t << " of " << destination_count;
        }
      };
      for (const auto target : Targets()) {
        ForceTargets(target);
        for (const std::size_t count : {std::size_t{1}, std::size_t{33}, std::size_t{700}, kMaxCount}) {
          for (const int destination_count : {1, 2, 3, 4, kMaxReduceDestinations}) {
            // All combinations of a few, a few of the combinations of many.
            const std::uint32_t stride = destination_count <= 4 ? 1 : 0x1357;
            for (std::uint32_t streamed = 0; streamed < 1u << destination_count; streamed += stride) {
              check(SelectReduce(type(), op), count, destination_count, streamed);
              ASSERT_FALSE(HasFailure()) << Describe(target, op, source_count, count);
            }
          }
        }
      }
    }
  }
}

TEST_P(ReduceTest, ScaledContributionsAndAverages) {
  const std::size_t size = SizeOf(type());
  std::mt19937_64 random(11);
  for (const int source_count : {1, 2, 3, 8, 64}) {
    const Sources sources(type(), source_count, source_count);
    const std::uint64_t all = source_count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << source_count) - 1;
    for (const std::uint64_t scaled : {std::uint64_t{0}, std::uint64_t{1}, all, random() & all}) {
      for (const int divisor : {0, 1, 2, 3, 64, 200, 100'003}) {
        Scalar scalar;
        Fill(type(), scalar.bytes.data(), 1, random);
        const auto expected = Reference(type(), tuttiSum, sources.pointers(), kMaxCount, scalar, {scaled, divisor});
        for (const auto target : Targets()) {
          ForceTargets(target);
          for (const std::size_t count : {std::size_t{1}, std::size_t{15}, std::size_t{70}, kMaxCount}) {
            Destination destination(count * size, 3 * size);
            void* const pointer = destination.data();
            auto call = CallFor(sources.pointers(), &pointer, 1, count);
            call.scaled = scaled;
            call.scalar = scalar;
            call.divisor = divisor;
            SelectReduce(type(), tuttiSum)(call);
            ASSERT_EQ(std::memcmp(pointer, expected.data(), count * size), 0)
                << Describe(target, tuttiSum, source_count, count) << " scaled " << scaled << " divisor " << divisor;
            ASSERT_TRUE(destination.GuardsIntact());
          }
        }
      }
    }
  }
}

// All pairs of codes for the 8-bit types; for the 16-bit ones all codes against partners of every kind.
TEST_P(ReduceSmallFloatTest, EveryCode) {
  const std::size_t size = SizeOf(type());
  const std::size_t codes = std::size_t{1} << (8 * size);
  std::vector<std::byte> all(codes * size);
  for (std::size_t code = 0; code < codes; ++code) std::memcpy(all.data() + code * size, &code, size);
  std::vector<std::size_t> partners = {0x0000, 0x8000, 0x0001, 0x8001, 0x3c00, 0xbc00, 0x3f80, 0x7bff, 0x7c00, 0xfc00,
                                       0x7f80, 0x7f7f, 0xff7f, 0x7e01, 0xffc1, 0x03ff, 0x0400, 0x1234, 0x9abc, 0x5678};
  if (size == 1) {
    partners.clear();
    for (std::size_t code = 0; code < codes; ++code) partners.push_back(code);
  }
  for (const std::size_t partner : partners) {
    std::vector<std::byte> other(all.size());
    for (std::size_t i = 0; i < codes; ++i) std::memcpy(other.data() + i * size, &partner, size);
    const std::vector<const void*> sources = {all.data(), other.data()};
    for (const auto op : kOps) {
      const auto expected = Reference(type(), op, sources, codes);
      for (const auto target : Targets()) {
        ForceTargets(target);
        std::vector<std::byte> result(all.size());
        void* const pointer = result.data();
        SelectReduce(type(), op)(CallFor(sources, &pointer, 1, codes));
        ASSERT_EQ(result, expected) << Describe(target, op, 2, codes) << " partner " << partner;
      }
    }
  }
}

// Rules of the numerics page, spelled out. Each case is repeated so that blocks and ladder both see it.
template <typename T>
void ExpectEverywhere(tuttiDataType_t type, tuttiRedOp_t op, std::vector<T> contributions, T expected) {
  constexpr std::size_t kCount = 101;
  std::vector<std::vector<T>> storage;
  std::vector<const void*> sources;
  for (const T x : contributions) storage.emplace_back(kCount, x);
  for (const auto& source : storage) sources.push_back(source.data());
  for (const auto target : Targets()) {
    ForceTargets(target);
    std::vector<T> result(kCount);
    void* const pointer = result.data();
    SelectReduce(type, op)(CallFor(sources, &pointer, 1, kCount));
    const std::vector<T> wanted(kCount, expected);
    EXPECT_EQ(std::memcmp(result.data(), wanted.data(), kCount * sizeof(T)), 0)
        << hwy::TargetName(target) << " " << NameOf(op) << " got " << result[0] << " wanted " << expected;
  }
}

using ReduceRules = OnEachTarget;

TEST_F(ReduceRules, NanPropagatesAndIsCanonical) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const auto negative = std::bit_cast<float>(0xffc1'2345u);
  const auto signalling = std::bit_cast<float>(0x7f80'0001u);
  for (const auto op : kOps) {
    ExpectEverywhere<float>(tuttiFloat32, op, {negative, 1}, nan);
    ExpectEverywhere<float>(tuttiFloat32, op, {1, negative}, nan);
    ExpectEverywhere<float>(tuttiFloat32, op, {signalling, negative, infinity}, nan);
    ExpectEverywhere<double>(tuttiFloat64, op, {1, -std::nan("5"), 2}, std::numeric_limits<double>::quiet_NaN());
  }
  ExpectEverywhere<float>(tuttiFloat32, tuttiSum, {infinity, -infinity}, nan);
  ExpectEverywhere<float>(tuttiFloat32, tuttiProd, {infinity, 0}, nan);
  ExpectEverywhere<float>(tuttiFloat32, tuttiMin, {infinity, 5, -infinity}, -infinity);
}

TEST_F(ReduceRules, MinusZeroIsBelowZero) {
  for (const auto& order : {std::vector<double>{0.0, -0.0}, std::vector<double>{-0.0, 0.0}}) {
    ExpectEverywhere<double>(tuttiFloat64, tuttiMax, order, 0.0);
    ExpectEverywhere<double>(tuttiFloat64, tuttiMin, order, -0.0);
  }
  ExpectEverywhere<float>(tuttiFloat32, tuttiMax, {-0.0f, -0.0f}, -0.0f);
  ExpectEverywhere<float>(tuttiFloat32, tuttiSum, {-0.0f, -0.0f}, -0.0f);
  ExpectEverywhere<float>(tuttiFloat32, tuttiSum, {-0.0f, 0.0f}, 0.0f);
}

TEST_F(ReduceRules, OrderIsLeftToRight) {
  ExpectEverywhere<float>(tuttiFloat32, tuttiSum, {1e8f, 1, -1e8f}, 0);
  ExpectEverywhere<float>(tuttiFloat32, tuttiSum, {1e8f, -1e8f, 1}, 1);
  ExpectEverywhere<double>(tuttiFloat64, tuttiSum, {1, 1e16, -1e16, 1}, 1);
}

TEST_F(ReduceRules, SmallFloatsAreRoundedOnce) {
  // 256 + 1 + 1 in bfloat16: each partial sum of 257 would be rounded back to 256.
  const std::uint16_t one = FromFloat<Bfloat16>(1);
  ExpectEverywhere<std::uint16_t>(tuttiBfloat16, tuttiSum, {FromFloat<Bfloat16>(256), one, one},
                                  FromFloat<Bfloat16>(258));
  // 60000 + 60000 - 60000 passes through more than float16 holds.
  const std::uint16_t big = FromFloat<Float16>(60'000);
  ExpectEverywhere<std::uint16_t>(tuttiFloat16, tuttiSum, {big, big, FromFloat<Float16>(-60'000)}, big);
}

TEST_F(ReduceRules, IntegersWrap) {
  ExpectEverywhere<std::int8_t>(tuttiInt8, tuttiSum, {127, 1}, -128);
  ExpectEverywhere<std::int32_t>(tuttiInt32, tuttiSum, {std::numeric_limits<std::int32_t>::max(), 1},
                                 std::numeric_limits<std::int32_t>::min());
  ExpectEverywhere<std::int64_t>(tuttiInt64, tuttiProd, {std::numeric_limits<std::int64_t>::min(), -1},
                                 std::numeric_limits<std::int64_t>::min());
}

}  // namespace
}  // namespace tutti::host_kernels
