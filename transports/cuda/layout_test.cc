#include "transports/cuda/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "transports/cuda/ring.h"

namespace tutti::cuda_transport {
namespace {

struct Piece {
  std::size_t begin, bytes;
};

// Everything in one rank's memory has its own place.
TEST(DeviceLayout, NothingOverlaps) {
  for (const auto& [nranks, channels] : {std::pair(1, 1), std::pair(2, 28), std::pair(8, 28), std::pair(64, 8)}) {
    const DeviceLayout layout(nranks, channels);
    std::vector<Piece> zeroed, data;
    for (int c = 0; c < channels; ++c) {
      data.push_back({layout.PostData(c), kDeviceBulkDepth * layout.bulk_stride()});
      for (int peer = 0; peer < nranks; ++peer) {
        data.push_back({layout.Data(c, peer), kDeviceBulkDepth * layout.bulk_stride()});
        for (const bool post : {false, true}) {
          zeroed.push_back({layout.Headers(c, peer, post), kDeviceBulkDepth * sizeof(DeviceSlotHeader)});
          zeroed.push_back({layout.Packets(c, peer, post), kDeviceLineDepth * layout.line_stride()});
          for (const bool bulk : {false, true}) zeroed.push_back({layout.Head(c, peer, bulk, post), 4});
        }
      }
    }
    for (const auto& piece : zeroed) EXPECT_LE(piece.begin + piece.bytes, layout.zeroed_bytes());
    for (const auto& piece : data) {
      EXPECT_GE(piece.begin, layout.zeroed_bytes());
      EXPECT_LE(piece.begin + piece.bytes, layout.bytes());
    }
    auto all = zeroed;
    all.insert(all.end(), data.begin(), data.end());
    std::sort(all.begin(), all.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
    for (std::size_t i = 1; i < all.size(); ++i) EXPECT_LE(all[i - 1].begin + all[i - 1].bytes, all[i].begin);
  }
}

TEST(DeviceLayout, MemoryIsBounded) {
  for (const int nranks : {2, 8, 64}) {
    const DeviceLayout layout(nranks, 28);
    EXPECT_LE(layout.bytes(), kDeviceBulkPoolBytes + kDeviceLinePoolBytes + (std::size_t{1} << 20)) << nranks;
    EXPECT_GE(layout.bulk_capacity(), 4096u);
    EXPECT_GE(layout.line_capacity(), 64u);
    EXPECT_LE(layout.line_capacity() + 16, layout.line_stride());
  }
}

}  // namespace
}  // namespace tutti::cuda_transport
