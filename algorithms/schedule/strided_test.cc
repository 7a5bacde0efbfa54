#include "algorithms/schedule/strided.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <set>
#include <vector>

namespace tutti::schedule {
namespace {

// The place of each packed byte, by loops.
std::vector<std::size_t> Places(const std::vector<StridedDim>& dims, std::size_t element_bytes) {
  std::vector<std::size_t> places{0};
  for (const auto& dim : dims) {
    std::vector<std::size_t> next;
    for (const auto place : places) {
      for (std::size_t i = 0; i < dim.size; ++i) next.push_back(place + i * dim.stride * element_bytes);
    }
    places = std::move(next);
  }
  std::vector<std::size_t> bytes;
  for (const auto place : places) {
    for (std::size_t b = 0; b < element_bytes; ++b) bytes.push_back(place + b);
  }
  return bytes;
}

void ExpectWalks(const std::vector<StridedDim>& dims, std::size_t element_bytes, unsigned seed) {
  const Strided buffer(dims, element_bytes);
  const auto places = Places(dims, element_bytes);
  std::mt19937 random(seed);
  for (int walk = 0; walk < 20; ++walk) {
    std::size_t packed = random() % places.size();
    for (StridedCursor cursor(buffer, packed); packed < places.size();) {
      const std::size_t step = 1 + random() % cursor.left();
      for (std::size_t i = 0; i < step && packed < places.size(); ++i, ++packed) {
        ASSERT_EQ(cursor.place() + i, places[packed]);
      }
      cursor.Advance(step);
    }
  }
}

// Row-major with gaps here and there; now and then two dimensions change places.
std::vector<StridedDim> RandomDims(std::mt19937& random) {
  std::vector<StridedDim> dims(1 + random() % 5);
  std::size_t stride = 1 + random() % 2;
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    *dim = {1 + random() % 5, stride};
    stride *= dim->size + (random() % 3 == 0 ? random() % 3 : 0);
  }
  if (random() % 2 == 0) std::swap(dims[random() % dims.size()], dims[random() % dims.size()]);
  return dims;
}

TEST(Strided, WalksInRowMajorOrder) {
  std::mt19937 random(1);
  for (unsigned trial = 0; trial < 200; ++trial) {
    const auto dims = RandomDims(random);
    ExpectWalks(dims, std::size_t{1} << random() % 4, trial);
  }
}

// A GPU's threads do not walk: each computes its own places, from where its step begins.
TEST(Strided, TellsEachPlaceByItself) {
  std::mt19937 random(2);
  for (unsigned trial = 0; trial < 200; ++trial) {
    const auto dims = RandomDims(random);
    const std::size_t element_bytes = std::size_t{1} << random() % 4;
    const Strided buffer(dims, element_bytes);
    if (buffer.dense()) continue;
    const auto places = Places(dims, element_bytes);
    const std::size_t begin = random() % places.size();
    const auto from = buffer.At(begin);
    for (std::size_t p = begin; p < places.size(); ++p) {
      const auto position = buffer.Further(from, p - begin);
      ASSERT_EQ(buffer.PlaceOf(position), places[p]);
      // Powers of two that divide the grain promise that bytes are aligned and contiguous as the packed bytes are.
      for (std::size_t width = 1; buffer.grain() % width == 0 && width <= 16; width *= 2) {
        ASSERT_EQ(places[p] % width, p % width);
        if (p % width + 1 < width && p + 1 < places.size()) {
          ASSERT_EQ(places[p + 1], places[p] + 1);
        }
      }
    }
  }
}

// Where 32 bits do not suffice for runs, sizes or strides.
TEST(Strided, TellsPlacesOfVeryLargeTensors) {
  constexpr std::size_t kMany = std::size_t{5} << 30;
  const std::vector<StridedDim> long_runs{{3, 2 * kMany}, {kMany, 1}}, many_runs{{kMany, 3}, {2, 1}};
  const Strided in_long_runs(long_runs, 1), in_many_runs(many_runs, 1);
  for (const std::size_t packed : {std::size_t{7}, kMany - 1, kMany, kMany + 1, 2 * kMany - 1}) {
    EXPECT_EQ(in_long_runs.PlaceOf(in_long_runs.At(packed)), packed / kMany * 2 * kMany + packed % kMany);
    EXPECT_EQ(in_many_runs.PlaceOf(in_many_runs.At(packed)), packed / 2 * 3 + packed % 2);
    EXPECT_EQ(StridedCursor(in_long_runs, packed).place(), in_long_runs.PlaceOf(in_long_runs.At(packed)));
  }
}

TEST(Strided, NeighboursThatAreOnePieceAreOneDimension) {
  const std::vector<StridedDim> whole{{4, 30}, {5, 6}, {1, 77}, {6, 1}};
  EXPECT_TRUE(Strided(whole, 4).dense());
  EXPECT_EQ(Strided(whole, 4).run_bytes(), 4 * 5 * 6 * 4u);
  const std::vector<StridedDim> columns{{4, 60}, {5, 6}, {6, 1}};
  EXPECT_FALSE(Strided(columns, 4).dense());
  EXPECT_EQ(Strided(columns, 4).run_bytes(), 5 * 6 * 4u);
  EXPECT_TRUE(Strided({}, 8).dense());
}

// Views of one piece of memory, most of which lie between each other's elements.
TEST(Strided, TellsWhetherTwoHaveACommonByte) {
  std::mt19937 random(3);
  int apart = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    const auto dims = RandomDims(random);
    auto others = random() % 3 == 0 ? RandomDims(random) : dims;
    for (auto& dim : others) {
      if (random() % 2 == 0) dim.size = 1 + random() % dim.size;
      if (random() % 8 == 0) dim.stride *= random() % 3;
    }
    const std::size_t element_bytes = std::size_t{1} << random() % 3;
    const auto places = Places(dims, element_bytes), other_places = Places(others, element_bytes);
    const auto distance = static_cast<std::ptrdiff_t>(random() % (places.back() + 1)) -
                          static_cast<std::ptrdiff_t>(random() % (other_places.back() + 1));
    std::set<std::ptrdiff_t> bytes(places.begin(), places.end());
    const bool common = std::any_of(other_places.begin(), other_places.end(), [&](std::size_t place) {
      return bytes.contains(static_cast<std::ptrdiff_t>(place) + distance);
    });
    const Strided one(dims, element_bytes), other(others, element_bytes);
    ASSERT_EQ(HaveCommonBytes(one, other, distance), common) << "trial " << trial;
    ASSERT_EQ(HaveCommonBytes(other, one, -distance), common) << "trial " << trial;
    if (!common) ++apart;
  }
  EXPECT_GT(apart, 400);
}

// So many pairs of rows are not compared.
TEST(Strided, AnswersSoonAboutVeryManyRows) {
  constexpr std::size_t kMany = std::size_t{1} << 30;
  const std::vector<StridedDim> even{{kMany, 2}}, every_third{{kMany, 6}}, wide{{kMany, 64}, {8, 1}};
  EXPECT_TRUE(HaveCommonBytes(Strided(even, 1), Strided(every_third, 1), 7));  // not so, but not told
  EXPECT_FALSE(HaveCommonBytes(Strided(even, 1), Strided(even, 1), 7));
  EXPECT_TRUE(HaveCommonBytes(Strided(even, 1), Strided(even, 1), 8));
  EXPECT_FALSE(HaveCommonBytes(Strided(wide, 4), Strided(wide, 4), 32));
  EXPECT_TRUE(HaveCommonBytes(Strided(wide, 4), Strided(wide, 4), 31));
}

}  // namespace
}  // namespace tutti::schedule
