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

}  // namespace

DeviceLayout::DeviceLayout(int nranks, int channels) : nranks_(nranks), channels_(channels) {
  const auto pairs = static_cast<std::size_t>(channels) * static_cast<std::size_t>(nranks);
  const std::size_t line_share = kDeviceLinePoolBytes / (2 * pairs) / kDeviceLineDepth;
  line_capacity_ = std::clamp(RoundDown(line_share / kPacket * kPacketData, ring::kCacheLine) - ring::kCacheLine,
                              ring::kCacheLine, kMostPacketData);
  line_stride_ = (1 + line_capacity_ / kPacketData) * kPacket;
  // One ring from each peer, and the own post.
  const std::size_t bulk_share = kDeviceBulkPoolBytes / (pairs + static_cast<std::size_t>(channels)) / kDeviceBulkDepth;
  bulk_stride_ = std::clamp(RoundDown(bulk_share, kAlignment), kAlignment, kMostDeviceBulkCapacity);

  headers_ = RoundUp(pairs * ring::kCacheLine, kAlignment);
  packets_ = headers_ + RoundUp(2 * pairs * kDeviceBulkDepth * sizeof(DeviceSlotHeader), kAlignment);
  data_ = packets_ + RoundUp(2 * pairs * kDeviceLineDepth * line_stride_, kAlignment);
  bytes_ = data_ + (pairs + static_cast<std::size_t>(channels)) * kDeviceBulkDepth * bulk_stride_;
}

std::size_t DeviceLayout::Head(int channel, int reader, bool bulk, bool post) const {
  // One line per reader, which alone writes it.
  const std::size_t line = (static_cast<std::size_t>(channel) * nranks_ + reader) * ring::kCacheLine;
  return line + ((bulk ? 2 : 0) + (post ? 1 : 0)) * sizeof(std::uint32_t);
}

std::size_t DeviceLayout::Headers(int channel, int writer, bool post) const {
  return headers_ + Ring(channel, writer, post) * kDeviceBulkDepth * sizeof(DeviceSlotHeader);
}

std::size_t DeviceLayout::Packets(int channel, int writer, bool post) const {
  return packets_ + Ring(channel, writer, post) * kDeviceLineDepth * line_stride_;
}

std::size_t DeviceLayout::Data(int channel, int writer) const {
  return data_ + (static_cast<std::size_t>(channel) * (nranks_ + 1) + writer) * kDeviceBulkDepth * bulk_stride_;
}

std::size_t DeviceLayout::PostData(int channel) const { return Data(channel, nranks_); }

}  // namespace tutti::cuda_transport
