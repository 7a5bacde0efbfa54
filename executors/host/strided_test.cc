#include "executors/host/strided.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tutti {
namespace {

// Where each packed byte lies, by loops.
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

TEST(Strided, WalksInRowMajorOrder) {
  std::mt19937 random(1);
  for (unsigned trial = 0; trial < 200; ++trial) {
    std::vector<StridedDim> dims(1 + random() % 5);
    // Row-major with gaps here and there; now and then two dimensions change places.
    std::size_t stride = 1 + random() % 2;
    for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
      *dim = {1 + random() % 5, stride};
      stride *= dim->size + (random() % 3 == 0 ? random() % 3 : 0);
    }
    if (random() % 2 == 0) std::swap(dims[random() % dims.size()], dims[random() % dims.size()]);
    ExpectWalks(dims, std::size_t{1} << random() % 4, trial);
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

}  // namespace
}  // namespace tutti
