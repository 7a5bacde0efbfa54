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
    const DeviceLayout layout(nranks, channels, true);
    std::vector<Piece> zeroed, lines, data;
    for (int c = 0; c < channels; ++c) {
      data.push_back({layout.PostData(c), kDeviceBulkDepth * layout.bulk_stride()});
      for (int peer = 0; peer < nranks; ++peer) {
        data.push_back({layout.Data(c, peer), kDeviceBulkDepth * layout.bulk_stride()});
        for (const bool post : {false, true}) {
          zeroed.push_back({layout.Headers(c, peer, post), kDeviceBulkDepth * sizeof(DeviceSlotHeader)});
          zeroed.push_back({layout.TeamHeaders(c, peer, post), kDeviceBulkDepth * sizeof(DeviceSlotHeader)});
          zeroed.push_back({layout.TeamHead(c, peer, post), 4});
          zeroed.push_back({layout.Packets(c, peer, post), kDeviceLineDepth * layout.line_stride()});
          lines.push_back({layout.Lines128(c, peer, post), kDeviceLine128Depth * layout.line128_stride()});
          EXPECT_EQ(lines.back().begin % 128, 0u);
          for (int p = 0; p < ring::kProtocols; ++p) {
            zeroed.push_back({layout.Head(c, peer, static_cast<ring::Protocol>(p), post), 4});
          }
        }
      }
    }
    for (const auto& piece : zeroed) EXPECT_LE(piece.begin + piece.bytes, layout.zeroed_bytes());
    for (const auto& piece : data) {
      EXPECT_GE(piece.begin, layout.zeroed_bytes());
      EXPECT_LE(piece.begin + piece.bytes, layout.bytes_on_host());
    }
    for (const auto& piece : lines) {
      EXPECT_GE(piece.begin, layout.lines_at());
      EXPECT_LE(piece.begin + piece.bytes, layout.bytes());
    }
    auto all = zeroed;
    all.insert(all.end(), data.begin(), data.end());
    all.insert(all.end(), lines.begin(), lines.end());
    std::sort(all.begin(), all.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
    for (std::size_t i = 1; i < all.size(); ++i) EXPECT_LE(all[i - 1].begin + all[i - 1].bytes, all[i].begin);
  }
}

TEST(DeviceLayout, MemoryIsBounded) {
  for (const int nranks : {2, 8, 64}) {
    const DeviceLayout layout(nranks, 28, true);
    EXPECT_LE(layout.bytes_on_host(), kDeviceBulkPoolBytes + kDeviceLinePoolBytes + (std::size_t{1} << 20)) << nranks;
    EXPECT_LE(layout.bytes() - layout.lines_at(), kDeviceLine128PoolBytes) << nranks;
    EXPECT_GE(layout.line128_capacity(), 1024u);
    EXPECT_LE(layout.line128_capacity(), kMostLine128Data);
    EXPECT_LE((layout.line128_capacity() + 119) / 120 * 128 + 128, layout.line128_stride());
    EXPECT_GE(layout.bulk_capacity(), 4096u);
    EXPECT_GE(layout.line_capacity(), 64u);
    EXPECT_LE(layout.line_capacity() + 16, layout.line_stride());
  }
}

TEST(DeviceLayout, LinesAreBehindAllElse) {
  const DeviceLayout with(4, 28, true), without(4, 28, false);
  EXPECT_EQ(without.line128_capacity(), 0u);
  EXPECT_EQ(without.bytes(), without.bytes_on_host());
  EXPECT_EQ(without.bytes(), with.bytes_on_host());
  EXPECT_GT(with.bytes(), with.bytes_on_host());
}

// Contributions to every rank and multicasts of every rank have places of their own, in memory of bounded size.
TEST(TeamLayout, NothingOverlapsAndMemoryIsBounded) {
  for (const auto& [nranks, channels] : {std::pair(2, 24), std::pair(8, 24), std::pair(16, 4)}) {
    const TeamLayout layout(nranks, channels);
    std::vector<std::size_t> begins;
    for (int c = 0; c < channels; ++c) {
      for (int rank = 0; rank < nranks; ++rank) {
        begins.push_back(layout.Contribution(c, rank));
        begins.push_back(layout.Multicast(c, rank));
      }
    }
    std::sort(begins.begin(), begins.end());
    const std::size_t ring = kDeviceBulkDepth * layout.stride();
    for (std::size_t i = 1; i < begins.size(); ++i) EXPECT_GE(begins[i], begins[i - 1] + ring);
    EXPECT_EQ(begins.back() + ring, layout.bytes());
    EXPECT_LE(layout.bytes(), kDeviceTeamPoolBytes);
    EXPECT_GE(layout.stride(), 16u * 1024);
  }
}

}  // namespace
}  // namespace tutti::cuda_transport
