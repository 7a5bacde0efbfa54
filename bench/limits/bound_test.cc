#include "bench/limits/bound.h"

#include <gtest/gtest.h>

namespace tutti::bench {
namespace {

constexpr std::size_t kMega = 1u << 20;

Operation Floats(Collective collective, std::size_t bytes, int ranks, bool in_place = false) {
  return {collective, tuttiFloat32, tuttiSum, 0, CountFor(collective, tuttiFloat32, bytes, ranks), in_place};
}

BandwidthCurve Flat(double gbs) { return BandwidthCurve({{1, gbs}, {1e12, gbs}}); }

// A machine with two cores and round numbers.
Limits RoundNumbers() {
  Limits limits;
  limits.cores = 2;
  limits.line_round_trip_us = 0.1;
  limits.yield_round_trip_us = 1;
  limits.crossing = Flat(10);
  limits.bandwidth = {{1, Flat(10), Flat(15), Flat(20), Flat(20)}, {2, Flat(20), Flat(30), Flat(40), Flat(35)}};
  return limits;
}

TEST(BandwidthCurve, IsStraightOnLogarithmicAxes) {
  const BandwidthCurve curve({{1024, 100}, {4096, 25}});
  EXPECT_DOUBLE_EQ(curve.At(1024), 100);
  EXPECT_NEAR(curve.At(2048), 50, 1e-9);
  EXPECT_DOUBLE_EQ(curve.At(1), 100);
  EXPECT_DOUBLE_EQ(curve.At(1e9), 25);
}

TEST(Traffic, CountsEachByteOnce) {
  const Traffic all_reduce = TrafficOf(Floats(Collective::all_reduce, kMega, 4), 4, 2);
  EXPECT_DOUBLE_EQ(all_reduce.streamed, 8.0 * kMega);     // four inputs, four outputs
  EXPECT_DOUBLE_EQ(all_reduce.working_set, 4.0 * kMega);  // two of each per core
  EXPECT_DOUBLE_EQ(all_reduce.crossing, 1.0 * kMega);     // half a partial result there, half a result back
  EXPECT_TRUE(all_reduce.reduces);
  const Traffic in_place = TrafficOf(Floats(Collective::all_reduce, kMega, 4, true), 4, 2);
  EXPECT_DOUBLE_EQ(in_place.streamed, all_reduce.streamed);
  EXPECT_DOUBLE_EQ(in_place.working_set, 2.0 * kMega);

  const Traffic reduce_scatter = TrafficOf(Floats(Collective::reduce_scatter, kMega, 8), 8, 2);
  EXPECT_DOUBLE_EQ(reduce_scatter.streamed, 9.0 * kMega);
  EXPECT_DOUBLE_EQ(reduce_scatter.crossing, 0.5 * kMega);

  const Traffic all_gather = TrafficOf(Floats(Collective::all_gather, kMega, 2), 2, 2);
  EXPECT_DOUBLE_EQ(all_gather.streamed, 3.0 * kMega);  // two inputs of half a MiB, two outputs
  EXPECT_DOUBLE_EQ(all_gather.handled, 4.0 * kMega);   // each byte of output is read and written
  EXPECT_DOUBLE_EQ(all_gather.crossing, 0.5 * kMega);
  EXPECT_DOUBLE_EQ(all_gather.working_set, 1.5 * kMega);

  const Traffic all_to_all = TrafficOf(Floats(Collective::all_to_all, kMega, 8), 8, 2);
  EXPECT_DOUBLE_EQ(all_to_all.streamed, 16.0 * kMega);
  EXPECT_DOUBLE_EQ(all_to_all.crossing, 2.0 * kMega);

  const Traffic broadcast = TrafficOf(Floats(Collective::broadcast, kMega, 2, true), 2, 2);
  EXPECT_DOUBLE_EQ(broadcast.streamed, 2.0 * kMega);
}

TEST(Bound, IsLatencyForSmallMessages) {
  const Limits limits = RoundNumbers();
  EXPECT_DOUBLE_EQ(BoundUs(Floats(Collective::all_reduce, 8, 2), 2, limits), 0.05);
  EXPECT_DOUBLE_EQ(BoundUs(Floats(Collective::all_reduce, 8, 3), 3, limits), 0.5);
  EXPECT_DOUBLE_EQ(BoundUs(Floats(Collective::all_reduce, 8, 4), 4, limits), 0.5);
  EXPECT_DOUBLE_EQ(BoundUs(Floats(Collective::all_reduce, 8, 8), 8, limits), 1.5);
  EXPECT_DOUBLE_EQ(BoundUs(Floats(Collective::barrier, 0, 2), 2, limits), 0.05);
  // The root runs ahead: only the bytes count.
  EXPECT_LT(BoundUs(Floats(Collective::broadcast, 8, 2), 2, limits), 0.01);
  EXPECT_DOUBLE_EQ(BoundUs(Floats(Collective::all_reduce, kMega, 1), 1, limits), 0);
}

TEST(Bound, IsTheSlowerOfCrossingAndStreaming) {
  const Limits limits = RoundNumbers();
  // 4 MiB at 40 GB/s equals 1 MiB at 10 GB/s.
  EXPECT_NEAR(BoundUs(Floats(Collective::all_reduce, kMega, 2), 2, limits), 4.0 * kMega / 40e3, 1e-6);
  // 8 MiB over two cores at 40 GB/s is more than the 1 MiB that crosses.
  EXPECT_NEAR(BoundUs(Floats(Collective::all_reduce, kMega, 4), 4, limits), 8.0 * kMega / 40e3, 1e-6);
  // 1 MiB is read and 1 MiB written, at the two cores' 30 GB/s.
  EXPECT_NEAR(BoundUs(Floats(Collective::broadcast, kMega, 2, true), 2, limits), 2.0 * kMega / 30e3, 1e-6);
}

TEST(Bound, OfALinkCountsWhatMustCrossBetweenHosts) {
  const auto bound = [](Collective collective) { return LinkBoundUs(Floats(collective, kMega, 8), 8, 4, 1.25); };
  constexpr double kUs = kMega / 1.25e3;  // one way
  EXPECT_NEAR(bound(Collective::all_reduce), 1.5 * kUs, 1e-6);
  EXPECT_NEAR(bound(Collective::reduce_scatter), 0.75 * kUs, 1e-6);
  EXPECT_NEAR(bound(Collective::all_gather), 0.75 * kUs, 1e-6);
  EXPECT_NEAR(bound(Collective::all_to_all), 1.5 * kUs, 1e-6);  // two ranks of a host, three quarters each
  EXPECT_NEAR(bound(Collective::broadcast), kUs, 1e-6);
}

TEST(Bound, CountsNoCrossingWhereACacheKeepsTheInputs) {
  Limits limits = RoundNumbers();
  limits.crossing = Flat(1);
  const auto bound = [&](std::size_t cache, bool in_place) {
    limits.private_cache_bytes = static_cast<double>(cache);
    return BoundUs(Floats(Collective::all_reduce, kMega, 2, in_place), 2, limits);
  };
  // An input, an output, half an input of the other rank and half its result.
  EXPECT_NEAR(bound(3 * kMega, false), 4.0 * kMega / 40e3, 1e-6);
  EXPECT_NEAR(bound(3 * kMega - 1, false), 1.0 * kMega / 1e3, 1e-6);
  EXPECT_NEAR(bound(3 * kMega, true), 1.0 * kMega / 1e3, 1e-6) << "results overwrite inputs";
}

TEST(Bound, GrowsWithSizeAndRanks) {
  const Limits limits = RoundNumbers();
  for (int i = 0; i < kCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    for (const int ranks : {2, 4, 8}) {
      double previous = 0;
      for (std::size_t bytes = 1024; bytes <= 64 * kMega; bytes *= 4) {
        const double bound = BoundUs(Floats(collective, bytes, ranks), ranks, limits);
        EXPECT_GE(bound, previous) << NameOf(collective);
        EXPECT_GE(bound, BoundUs(Floats(collective, bytes, ranks / 2), ranks / 2, limits)) << NameOf(collective);
        previous = bound;
      }
    }
  }
}

TEST(Limits, SurviveTheFile) {
  const Limits limits = RoundNumbers();
  const Limits again = LimitsFromJson(Json::parse(ToJson(limits).dump()));
  EXPECT_EQ(ToJson(again), ToJson(limits));
  EXPECT_EQ(again.With(7).cores, 2);
  EXPECT_EQ(again.With(1).cores, 1);
}

}  // namespace
}  // namespace tutti::bench
