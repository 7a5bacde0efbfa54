#include "transports/cuda/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "transports/cuda/ring.h"

namespace tutti::cuda_transport {
namespace {

struct Piece {
  std::size_t begin, bytes;
};

// Everything in one rank's memory has its own place.
TEST(DeviceLayout, NothingOverlaps) {
  for (const auto& [nranks, channels, posts] :
       {std::tuple(1, 1, true), std::tuple(2, 28, true), std::tuple(8, 28, true), std::tuple(8, 28, false),
        std::tuple(64, 8, true)}) {
    const DeviceLayout layout(nranks, channels, {.packets = true, .lines128 = true, .posts = posts});
    std::vector<Piece> zeroed, lines, data;
    for (int c = 0; c < channels; ++c) {
      data.push_back({layout.PostData(c), kDeviceBulkDepth * layout.bulk_stride()});
      for (int peer = 0; peer < nranks; ++peer) {
        data.push_back({layout.Data(c, peer), kDeviceBulkDepth * layout.bulk_stride()});
        for (const bool post : {false, true}) {
          zeroed.push_back({layout.Headers(c, peer, post), kDeviceBulkDepth * sizeof(DeviceSlotHeader)});
          zeroed.push_back({layout.TeamHeaders(c, peer, post), kDeviceBulkDepth * sizeof(DeviceSlotHeader)});
          zeroed.push_back({layout.TeamHead(c, peer, post), 4});
          if (posts || !post) {
            zeroed.push_back({layout.Packets(c, peer, post), kDeviceLineDepth * layout.line_stride()});
            lines.push_back({layout.Lines128(c, peer, post), kDeviceLine128Depth * layout.line128_stride()});
            EXPECT_EQ(lines.back().begin % 128, 0u);
          }
          for (int p = 0; p < ring::kProtocols; ++p) {
            zeroed.push_back({layout.Head(c, peer, static_cast<ring::Protocol>(p), post), 4});
          }
        }
      }
    }
    const auto message_bytes = kDeviceMessageDepth * layout.message_stride();
    for (int c = channels; c < channels + layout.message_channels(); ++c) {
      for (int peer = 0; peer < nranks; ++peer) {
        zeroed.push_back({layout.Headers(c, peer, false), kDeviceBulkDepth * sizeof(DeviceSlotHeader)});
        zeroed.push_back({layout.Head(c, peer, ring::Protocol::bulk, false), 4});
        if (c == channels) zeroed.push_back({layout.Packets(c, peer, false), kDeviceLineDepth * layout.line_stride()});
        if (nranks == 1 || peer == nranks / 2) continue;
        lines.push_back({layout.MessageSlots(c, nranks / 2, peer), message_bytes});
        EXPECT_EQ(lines.back().begin % 128, 0u);
        EXPECT_LE(lines.back().begin + message_bytes, layout.bytes_on_host());
      }
    }
    for (const auto& piece : zeroed) EXPECT_LE(piece.begin + piece.bytes, layout.zeroed_bytes());
    for (const auto& piece : data) {
      EXPECT_GE(piece.begin, layout.zeroed_bytes());
      EXPECT_LE(piece.begin + piece.bytes, layout.bytes_on_host());
    }
    for (const auto& piece : lines) {
      EXPECT_GE(piece.begin, layout.may_hold_lines_at());
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
    const DeviceLayout layout(nranks, 28, {.packets = true, .lines128 = true});
    EXPECT_LE(layout.bytes_on_host(),
              kDeviceBulkPoolBytes + kDeviceLinePoolBytes + kDeviceMessagePoolBytes + (std::size_t{1} << 20))
        << nranks;
    EXPECT_LE(layout.bytes() - layout.bytes_on_host(), kDeviceLine128PoolBytes) << nranks;
    EXPECT_LE(layout.bytes(), std::size_t{129} << 20) << nranks;
    EXPECT_GE(layout.line128_capacity(), 1024u);
    EXPECT_LE(layout.line128_capacity(), kMostLine128Data);
    EXPECT_LE((layout.line128_capacity() + 119) / 120 * 128 + 128, layout.line128_stride());
    EXPECT_GE(layout.bulk_capacity(), 4096u);
    EXPECT_GE(layout.line_capacity(), 64u);
    EXPECT_LE(layout.line_capacity() + 16, layout.line_stride());
  }
}

// Bulk slots are as long as where they are alone, packets and lines as on one host.
TEST(DeviceLayout, MemoryOfSeveralHostsIsBounded) {
  for (const int nranks : {2, 8, 64}) {
    const DeviceLayout layout(nranks, 28, {.packets = true, .lines128 = true, .posts = false});
    const DeviceLayout one_host(nranks, 28, {.packets = true, .lines128 = true});
    const DeviceLayout alone(nranks, 28, {.packets = false, .lines128 = false});
    EXPECT_LE(layout.bytes(), std::size_t{129} << 20) << nranks;
    EXPECT_EQ(layout.bulk_capacity(), alone.bulk_capacity()) << nranks;
    EXPECT_EQ(layout.message_channels(), alone.message_channels()) << nranks;
    EXPECT_GE(layout.line128_capacity(), one_host.line128_capacity()) << nranks;
    EXPECT_GE(1.2 * static_cast<double>(layout.line_capacity()), static_cast<double>(one_host.line_capacity()))
        << nranks;
  }
}

// Each pair of ranks has as many channels as have slots of a good length.
TEST(DeviceLayout, MessagesHaveAsManyChannelsAsMemoryAllows) {
  for (const bool several_hosts : {false, true}) {
    int last = kMostMessageChannels;
    for (const int nranks : {1, 2, 4, 8, 16, 32, 64, 256}) {
      const DeviceLayout layout(nranks, 32, {.packets = !several_hosts, .lines128 = !several_hosts});
      const int channels = layout.message_channels();
      EXPECT_LE(channels, last) << nranks;
      last = channels;
      EXPECT_GE(channels, kFewestMessageChannels);
      if (channels > kFewestMessageChannels) {
        EXPECT_GE(layout.message_capacity(ring::Protocol::bulk), kLeastMessageSlot - 512);
      }
      EXPECT_LE(layout.message_capacity(ring::Protocol::bulk), layout.message_stride());
      EXPECT_LE((layout.message_capacity(ring::Protocol::inlined) + 119) / 120 * 128 + 128,
                layout.message_stride() + 128);
      EXPECT_EQ(layout.message_capacity(ring::Protocol::inlined) == 0, several_hosts);
      EXPECT_EQ(layout.message_capacity(ring::Protocol::inlined) % ring::kCacheLine, 0u);
      if (nranks == 1) continue;
      const auto slots = static_cast<std::size_t>(channels * (nranks - 1)) * kDeviceMessageDepth;
      EXPECT_LE(slots * layout.message_stride(), kDeviceMessagePoolBytes);
    }
    const DeviceLayout eight(8, 32, {.packets = !several_hosts, .lines128 = !several_hosts});
    EXPECT_EQ(eight.message_channels(), 32);
  }
}

// Packets and lines are for as many ranks as a step can write to; bulk slots for any number.
TEST(DeviceLayout, MemoryOfManyRanksIsBounded) {
  constexpr std::size_t kMost = std::size_t{100} << 20;
  for (const int nranks : {64, 65, 256, 455, 456, 1024}) {
    const DeviceLayout layout(nranks, 28, {.packets = false, .lines128 = false});
    EXPECT_LE(layout.bytes(), kMost) << nranks;
    EXPECT_EQ(layout.line_capacity(), 0U);
    EXPECT_GE(layout.bulk_capacity(), ring::kCacheLine) << nranks;
  }
  EXPECT_GE(DeviceLayout(8, 32, {.packets = false, .lines128 = false}).bulk_capacity(), std::size_t{78} << 10);
  // Where their number leaves no room, slots have their least length.
  EXPECT_EQ(DeviceLayout(16'384, 32, {.packets = false, .lines128 = false}).bulk_capacity(), 512U);
  for (const int nranks : {455, 456, 4096}) {
    const DeviceLayout layout(nranks, 28, {.packets = true, .lines128 = false});
    EXPECT_EQ(layout.line_capacity(), ring::kCacheLine) << nranks;
  }
}

TEST(DeviceLayout, LinesAreBehindAllElse) {
  const DeviceLayout with(4, 28, {.packets = true, .lines128 = true}),
      without(4, 28, {.packets = true, .lines128 = false});
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

// Slots of a few KiB would make 64 GPUs ten times as slow as they must be.
TEST(NetworkSlots, AreLongAtAnyNumberOfRanks) {
  constexpr std::size_t kMost = std::size_t{512} << 10;
  std::size_t last = kMost;
  for (const int nranks : {2, 16, 64, 256, 1024, 4096}) {
    const auto capacity = NetworkSlotCapacity(nranks, kMost);
    EXPECT_LE(capacity, last) << nranks;
    EXPECT_EQ(capacity % ring::kCacheLine, 0u);
    last = capacity;
  }
  EXPECT_GE(NetworkSlotCapacity(256, kMost), std::size_t{256} << 10);
  EXPECT_GE(NetworkSlotCapacity(1024, kMost), 130'000u);
  EXPECT_EQ(NetworkSlotCapacity(64, 4096), 4096u);
}

}  // namespace
}  // namespace tutti::cuda_transport
