#include "transports/cuda/layout.h"

#include <algorithm>

#include "base/numbers/rounding.h"
#include "transports/cuda/ring.h"

namespace tutti::cuda_transport {
namespace {

// Alignment of each separate area: a GPU's pages are larger, but its cache lines are not.
constexpr std::size_t kAlignment = 512;
// Packets of 16 bytes carry 8 (executors/cuda/kernels/packet.h); one more holds the slot's header.
constexpr std::size_t kPacket = 16, kPacketData = 8;
// Lines of 128 bytes carry 120 (executors/cuda/kernels/line128.h), and one more is the slot's header.
constexpr std::size_t kLine128 = 128, kLine128Data = 120;

}  // namespace

DeviceLayout::DeviceLayout(int nranks, int channels, bool lines128) : nranks_(nranks), channels_(channels) {
  const auto pairs = static_cast<std::size_t>(channels) * static_cast<std::size_t>(nranks);
  const std::size_t line_share = kDeviceLinePoolBytes / (2 * pairs) / kDeviceLineDepth;
  line_capacity_ = std::clamp(RoundDown(line_share / kPacket * kPacketData, ring::kCacheLine) - ring::kCacheLine,
                              ring::kCacheLine, kMostPacketData);
  line_stride_ = (1 + line_capacity_ / kPacketData) * kPacket;
  // One ring from each peer, and the own post.
  const std::size_t bulk_share = kDeviceBulkPoolBytes / (pairs + static_cast<std::size_t>(channels)) / kDeviceBulkDepth;
  bulk_stride_ = std::clamp(RoundDown(bulk_share, kAlignment), kAlignment, kMostDeviceBulkCapacity);

  headers_ = RoundUp(pairs * ring::kCacheLine, kAlignment);
  constexpr std::size_t kHeaderRings = 4;  // of each pair: its ring, a post, contributions, multicasts
  signals_ = headers_ + RoundUp(kHeaderRings * pairs * kDeviceBulkDepth * sizeof(DeviceSlotHeader), kAlignment);
  packets_ = RoundUp(Signals(nranks), kAlignment);
  data_ = packets_ + RoundUp(2 * pairs * kDeviceLineDepth * line_stride_, kAlignment);
  lines_ = data_ + (pairs + static_cast<std::size_t>(channels)) * kDeviceBulkDepth * bulk_stride_;
  if (lines128) {
    const std::size_t share = kDeviceLine128PoolBytes / (2 * pairs) / kDeviceLine128Depth;
    constexpr std::size_t kMostLines = (kMostLine128Data + kLine128Data - 1) / kLine128Data;
    const std::size_t lines = std::clamp(share / kLine128, std::size_t{2}, 1 + kMostLines) - 1;
    line128_capacity_ = std::min(RoundDown(lines * kLine128Data, ring::kCacheLine), kMostLine128Data);
    line128_stride_ = (1 + lines) * kLine128;
  }
  bytes_ = lines_ + 2 * pairs * kDeviceLine128Depth * line128_stride_;
}

std::size_t DeviceLayout::Head(int channel, int reader, ring::Protocol protocol, bool post) const {
  // One line per reader, which alone writes it.
  const std::size_t line = (static_cast<std::size_t>(channel) * nranks_ + reader) * ring::kCacheLine;
  static_assert(2 * ring::kProtocols * sizeof(std::uint32_t) <= ring::kCacheLine);
  return line + (2 * static_cast<std::size_t>(protocol) + (post ? 1 : 0)) * sizeof(std::uint32_t);
}

std::size_t DeviceLayout::Headers(int channel, int writer, bool post) const {
  return headers_ + Ring(channel, writer, post) * kDeviceBulkDepth * sizeof(DeviceSlotHeader);
}

std::size_t DeviceLayout::TeamHead(int channel, int reader, bool multicast) const {
  constexpr std::size_t kFirst = 2 * ring::kProtocols * sizeof(std::uint32_t);
  static_assert(kFirst + 2 * sizeof(std::uint32_t) <= ring::kCacheLine);
  return Head(channel, reader, {}, false) + kFirst + (multicast ? sizeof(std::uint32_t) : 0);
}

std::size_t DeviceLayout::TeamHeaders(int channel, int writer, bool multicast) const {
  return Headers(channels_, 0, false) + Ring(channel, writer, multicast) * kDeviceBulkDepth * sizeof(DeviceSlotHeader);
}

TeamLayout::TeamLayout(int nranks, int channels) : nranks_(nranks), channels_(channels) {
  const auto rings = 2 * static_cast<std::size_t>(nranks) * static_cast<std::size_t>(channels);
  stride_ = std::clamp(RoundDown(kDeviceTeamPoolBytes / (rings * kDeviceBulkDepth), kAlignment), kAlignment,
                       kMostDeviceBulkCapacity);
}

std::size_t DeviceLayout::Packets(int channel, int writer, bool post) const {
  return packets_ + Ring(channel, writer, post) * kDeviceLineDepth * line_stride_;
}

std::size_t DeviceLayout::Lines128(int channel, int writer, bool post) const {
  return lines_ + Ring(channel, writer, post) * kDeviceLine128Depth * line128_stride_;
}

std::size_t DeviceLayout::Data(int channel, int writer) const {
  return data_ + (static_cast<std::size_t>(channel) * (nranks_ + 1) + writer) * kDeviceBulkDepth * bulk_stride_;
}

std::size_t DeviceLayout::PostData(int channel) const { return Data(channel, nranks_); }

}  // namespace tutti::cuda_transport
