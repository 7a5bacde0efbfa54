#include "transports/ring/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace tutti::ring {
namespace {

struct Extent {
  std::size_t begin, end;
};

TEST(Layout, NothingOverlapsAndMemoryIsBounded) {
  for (const int nranks : {1, 2, 3, 8, 64, 100}) {
    for (const int channels : {1, 3, 5, 17}) {
      const Layout layout(nranks, channels);
      std::vector<Extent> extents = {{0, sizeof(ControlBlock)}};
      std::size_t bulk = 0;
      for (int channel = 0; channel < channels; ++channel) {
        for (const Protocol protocol : {Protocol::line, Protocol::inlined, Protocol::bulk}) {
          for (int peer = 0; peer <= nranks; ++peer) {
            const auto begin = layout.RingOffset(channel, protocol, peer);
            EXPECT_EQ(begin % kCacheLine, 0U);
            extents.push_back({begin, begin + layout.RingBytes(protocol, peer)});
            if (protocol == Protocol::bulk) bulk += layout.RingBytes(protocol, peer);
          }
          for (int writer = 0; writer < nranks; ++writer) {
            for (const bool post : {false, true}) {
              const auto head = layout.HeadOffset(channel, protocol, writer, post);
              extents.push_back({head, head + sizeof(std::uint32_t)});
            }
          }
        }
      }
      std::sort(extents.begin(), extents.end(), [](auto a, auto b) { return a.begin < b.begin; });
      for (std::size_t i = 1; i < extents.size(); ++i) ASSERT_LE(extents[i - 1].end, extents[i].begin);
      EXPECT_LE(extents.back().end, layout.bytes());
      EXPECT_LE(bulk, kBulkPoolBytes);
      EXPECT_GE(layout.bulk_capacity(), kCacheLine);
    }
  }
}

}  // namespace
}  // namespace tutti::ring
