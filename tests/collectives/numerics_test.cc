// Arithmetic guarantees beyond exact whole numbers: one rounding where partial sums are not forwarded, results in
// deterministic mode that do not depend on how they are computed, and scaled sums.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <random>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "testing/elements.h"
#include "testing/ranks.h"
#include "testing/surroundings.h"

namespace tutti::testing {
namespace {

// A rank's contribution, of widely varying magnitudes. Results must be the left-to-right sum of all in fp32.
std::vector<float> Contribution(int rank, std::size_t count) {
  std::mt19937 random(static_cast<std::uint32_t>(rank) + 99);
  std::uniform_real_distribution<float> spread(-1000, 1000);
  std::vector<float> data(count);
  for (auto& each : data) each = spread(random) * std::ldexp(1.0F, static_cast<int>(random() % 40) - 20);
  return data;
}

TEST(Deterministic, OneExpressionWhateverTheSizeAlgorithmAndChannels) {
  constexpr std::size_t kCount = 70'000;
  for (const int ranks : Grid(std::vector{2, 3, 5, 8}, 2)) {
    std::vector<float> wanted = Contribution(0, kCount);
    for (int r = 1; r < ranks; ++r) {
      const auto more = Contribution(r, kCount);
      for (std::size_t i = 0; i < kCount; ++i) wanted[i] += more[i];
    }
    RunRanks(ranks, [&](Rank& self) {
      int which = 0;
      for (const char* algorithm : {"", "direct", "two_shot", "ring", "recursive", "double_binary_tree"}) {
        tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
        config.deterministic = 1;
        config.channels = 1 + which % 3;
        if (*algorithm != 0) config.algorithm = algorithm;
        const auto comm = self.Join(&config, which++);
        const auto mine = Contribution(self.rank(), kCount);
        for (const std::size_t count : {std::size_t{1}, std::size_t{5}, std::size_t{1000}, kCount}) {
          std::vector<float> got(count);
          ASSERT_TRUE(Ok(tuttiAllReduce(mine.data(), got.data(), count, tuttiFloat32, tuttiSum, comm, nullptr)));
          for (std::size_t i = 0; i < count; ++i) {
            ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(wanted[i]))
                << algorithm << ", element " << i << " of " << count;
          }
        }
      }
    });
  }
}

// Sums that are exact in fp32 and must be rounded to the small format only once.
TEST(Rounding, OnceWhereNothingIsForwarded) {
  constexpr std::size_t kCount = 3000;
  for (const char* algorithm : {"direct", "two_shot"}) {
    RunRanks(5, [&](Rank& self) {
      tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
      config.algorithm = algorithm;
      const auto comm = self.Join(&config);
      for (const auto type : {tuttiFloat16, tuttiBfloat16, tuttiFloat8e4m3, tuttiFloat8e5m2}) {
        const auto& format = *SmallFloatOf(type);
        const auto size = kElementBytes[type];
        // Random values of the format with exponents near each other.
        const auto code_of = [&](int rank, std::size_t i) {
          std::mt19937 random(static_cast<std::uint32_t>(static_cast<std::size_t>(rank) * kCount + i));
          const auto exponent = static_cast<std::uint32_t>(format.bias - 2 + static_cast<int>(random() % 4));
          const auto mantissa = random() & ((1U << format.mantissa_bits) - 1);
          return (random() & 1) << format.sign_bit() | exponent << format.mantissa_bits | mantissa;
        };
        std::vector<std::uint8_t> sent(kCount * size), got(kCount * size);
        for (std::size_t i = 0; i < kCount; ++i) {
          const auto code = code_of(self.rank(), i);
          std::memcpy(&sent[i * size], &code, size);  // little-endian, as every supported machine
        }
        ASSERT_TRUE(Ok(tuttiAllReduce(sent.data(), got.data(), kCount, type, tuttiSum, comm, nullptr)));
        for (std::size_t i = 0; i < kCount; ++i) {
          double sum = 0;
          for (int r = 0; r < self.size(); ++r) sum += format.Decode(code_of(r, i));
          std::uint32_t code = 0;
          std::memcpy(&code, &got[i * size], size);
          ASSERT_EQ(format.Decode(code), format.Decode(format.Encode(sum)))
              << kTypeNames[type] << " by " << algorithm << ", element " << i << ", exactly " << sum;
        }
      }
    });
  }
}

TEST(PreMulSum, ScalesEachRanksContribution) {
  RunRanks(3, [](Rank& self) {
    int which = 0;
    for (const char* algorithm :
         {"direct", "ring", "two_shot", "recursive", "recursive_doubling", "double_binary_tree"}) {
      tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
      config.algorithm = algorithm;
      const auto comm = self.Join(&config, which++);
      for (const auto type : {tuttiFloat32, tuttiInt32, tuttiFloat16, tuttiUint8, tuttiFloat64}) {
        for (const std::size_t count : {1, 1000, 50'000}) {
          std::uint64_t scalar = 0;
          FillElements(type, &scalar, 1, [&](std::size_t) { return self.rank() + 1; });
          tuttiRedOp_t op;
          ASSERT_TRUE(Ok(tuttiRedOpCreatePreMulSum(&op, &scalar, type, tuttiScalarHostImmediate, comm)));
          scalar = ~scalar;  // the library has already read it
          std::vector<std::uint8_t> sent(count * kElementBytes[type]), got(sent.size()), wanted(sent.size());
          FillElements(type, sent.data(), count, [](std::size_t i) { return static_cast<std::int64_t>(i % 7); });
          FillElements(type, wanted.data(), count, [](std::size_t i) { return static_cast<std::int64_t>(i % 7) * 6; });
          ASSERT_TRUE(Ok(tuttiAllReduce(sent.data(), got.data(), count, type, op, comm, nullptr)));
          EXPECT_EQ(got, wanted) << algorithm << " " << kTypeNames[type] << " " << count;
          const auto mine = got;
          ASSERT_TRUE(Ok(tuttiReduce(sent.data(), got.data(), count, type, op, 1, comm, nullptr)));
          EXPECT_EQ(got, self.rank() == 1 ? wanted : mine);
          EXPECT_TRUE(Ok(tuttiRedOpDestroy(op, comm)));
          EXPECT_TRUE(Fails(tuttiAllReduce(sent.data(), got.data(), count, type, op, comm, nullptr),
                            tuttiInvalidArgument, {"op"}));
          EXPECT_TRUE(Fails(tuttiRedOpDestroy(op, comm), tuttiInvalidArgument, {"op"}));
        }
      }
    }
  });
}

TEST(PreMulSum, OfADeviceScalarIsReadWhenTheCallRuns) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    float scalar = 100;
    tuttiRedOp_t op;
    ASSERT_TRUE(Ok(tuttiRedOpCreatePreMulSum(&op, &scalar, tuttiFloat32, tuttiScalarDevice, comm)));
    for (const float now : {2.0F, 3.0F}) {
      scalar = now;
      float value = 1;
      ASSERT_TRUE(Ok(tuttiAllReduce(&value, &value, 1, tuttiFloat32, op, comm, nullptr)));
      EXPECT_EQ(value, 2 * now);
    }
    double other = 1;
    EXPECT_TRUE(Fails(tuttiAllReduce(&other, &other, 1, tuttiFloat64, op, comm, nullptr), tuttiInvalidArgument,
                      {"float32", "float64"}));
  });
}

#if defined(__SSE2__)
// The flags that `-ffast-math` sets for a thread.
constexpr unsigned kFlushSubnormals = 0x8040;

std::size_t CountOf(const std::vector<float>& data, std::uint32_t bits) {
  return static_cast<std::size_t>(
      std::ranges::count_if(data, [bits](float each) { return std::bit_cast<std::uint32_t>(each) == bits; }));
}

// A helper thread reduces half of the message.
TEST(FloatModes, OfTheCallerHoldForItsHelperThreads) {
  static constexpr std::size_t kCount = 1 << 20;
  RunRanks(2,
           [](Rank& self) {
             const auto comm = self.Join();
             const auto contribution = std::bit_cast<float>(self.rank() == 0 ? 3U : 4U);
             const std::vector<float> data(kCount, contribution);
             std::vector<float> got(kCount);
             const auto reduce = [&] {
               return tuttiAllReduce(data.data(), got.data(), kCount, tuttiFloat32, tuttiSum, comm, nullptr);
             };
             const auto before = _mm_getcsr();
             _mm_setcsr(before | kFlushSubnormals);
             const auto flushed = reduce();
             _mm_setcsr(before);
             ASSERT_TRUE(Ok(flushed));
             EXPECT_EQ(CountOf(got, 0), kCount) << CountOf(got, 7) << " elements are a sum that was not flushed";
             ASSERT_TRUE(Ok(reduce()));
             EXPECT_EQ(CountOf(got, 7), kCount);
           },
           {.environment = {{"TUTTI_THREADS", "2"}, {"TUTTI_CHANNELS", "2"}}});
}

TEST(FloatModes, OfWhoGivesAStreamACallHoldForThatCall) {
  static constexpr std::size_t kCount = 1000;
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    tuttiStream_t stream;
    ASSERT_TRUE(Ok(tuttiStreamCreate(&stream)));
    const std::vector<float> data(kCount, std::bit_cast<float>(self.rank() == 0 ? 3U : 4U));
    std::vector<float> flushed(kCount), kept(kCount);
    const auto reduce = [&](std::vector<float>& to) {
      return tuttiAllReduce(data.data(), to.data(), kCount, tuttiFloat32, tuttiSum, comm, stream);
    };
    const auto before = _mm_getcsr();
    _mm_setcsr(before | kFlushSubnormals);
    const auto given = reduce(flushed);
    _mm_setcsr(before);
    ASSERT_TRUE(Ok(given));
    ASSERT_TRUE(Ok(reduce(kept)));
    ASSERT_TRUE(Ok(tuttiStreamSynchronize(stream)));
    EXPECT_EQ(CountOf(flushed, 0), kCount);
    EXPECT_EQ(CountOf(kept, 7), kCount);
    EXPECT_TRUE(Ok(tuttiStreamDestroy(stream)));
  });
}
#endif

// Results are stored with streaming stores, and peers read blocks of them in place during the call. Without a fence, a
// chunk's last stores may still be in flight when its slot is published.
TEST(StreamedSlow, BlocksThatPeersReadInPlaceAreWhole) {
  static constexpr std::size_t kCount = 3'000'000;
  static constexpr int kCalls = 5;
  const auto run = [](const char* algorithm, bool threads) {
    RunRanks(2,
             [](Rank& self) {
               const auto comm = self.Join();
               std::vector<std::int32_t> sent(kCount), got(kCount), part(kCount / 2);
               const auto wrong = [&](auto&& wanted) {
                 std::size_t count = 0;
                 for (std::size_t i = 0; i < kCount; ++i) count += got[i] != wanted(i);
                 return count;
               };
               for (int call = 1; call <= kCalls; ++call) {
                 std::ranges::fill(sent, 1000 * call + self.rank());
                 ASSERT_TRUE(Ok(tuttiAllReduce(sent.data(), got.data(), kCount, tuttiInt32, tuttiSum, comm, nullptr)));
                 ASSERT_EQ(wrong([&](std::size_t) { return 2000 * call + 1; }), 0U) << "all-reduce " << call;
                 std::ranges::fill(part, 7 * call + self.rank());
                 ASSERT_TRUE(Ok(tuttiAllGather(part.data(), got.data(), part.size(), tuttiInt32, comm, nullptr)));
                 ASSERT_EQ(wrong([&](std::size_t i) { return 7 * call + static_cast<int>(i / part.size()); }), 0U)
                     << "all-gather " << call;
               }
             },
             // Thousands of short steps, each waiting for the other rank: slow on a busy machine.
             {.threads = threads,
              .limit = std::chrono::seconds(200),
              .environment = {{"TUTTI_ALGO", algorithm},
                              {"TUTTI_PROTO", "bulk"},
                              {"TUTTI_CHUNK", "1024"},
                              {"TUTTI_CHANNELS", "1"},
                              {"TUTTI_CMA", "1"},
                              {"TUTTI_STREAM_BYTES", "1"}}});
  };
  for (const char* algorithm : {"recursive", "ring"}) {
    run(algorithm, true);
    run(algorithm, false);
  }
}

TEST(Average, IsTheSumDividedByTheRanks) {
  RunRanks(3, [](Rank& self) {
    const auto comm = self.Join();
    std::vector<float> data = Contribution(self.rank(), 1000), got(1000);
    for (auto& each : data) each = std::trunc(std::fmod(each, 1000.0F));  // sums are exact, quotients are not
    std::vector<float> sums(1000);
    ASSERT_TRUE(Ok(tuttiAllReduce(data.data(), sums.data(), 1000, tuttiFloat32, tuttiSum, comm, nullptr)));
    ASSERT_TRUE(Ok(tuttiAllReduce(data.data(), got.data(), 1000, tuttiFloat32, tuttiAvg, comm, nullptr)));
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], sums[i] / 3.0F);
    std::vector<std::int32_t> whole = {-7, 7, -1, 1, 100};
    ASSERT_TRUE(Ok(tuttiAllReduce(whole.data(), whole.data(), whole.size(), tuttiInt32, tuttiAvg, comm, nullptr)));
    EXPECT_EQ(whole, (std::vector<std::int32_t>{-7, 7, -1, 1, 100}));
    std::int32_t vector_counts = self.rank() == 0 ? -5 : 0;
    ASSERT_TRUE(Ok(tuttiAllReduce(&vector_counts, &vector_counts, 1, tuttiInt32, tuttiAvg, comm, nullptr)));
    EXPECT_EQ(vector_counts, -1) << "towards zero";
  });
}

}  // namespace
}  // namespace tutti::testing
