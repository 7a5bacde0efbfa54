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
std::size_t DataOfLines(std::size_t stride) {
  return std::min(RoundDown((stride / kLine128 - 1) * kLine128Data, ring::kCacheLine), kMostLine128Data);
}
// Headers of each pair in a channel for collectives: of its ring, a post, contributions, multicasts.
constexpr std::size_t kHeaderRings = 4;
// Ten times the least is enough for a step's fixed time not to matter.
constexpr std::size_t kMostMessageSlot = std::size_t{128} << 10;
// Slots between hosts get shorter where the rings of a channel, to all ranks and back, would take more than this.
constexpr std::size_t kMostBytesOfAChannel = std::size_t{1} << 30;
// A message costs little beside so many bytes.
constexpr std::size_t kMostNetworkCapacity = std::size_t{256} << 10;

}  // namespace

DeviceLayout::DeviceLayout(int nranks, int channels, Short with)
    : nranks_(nranks), channels_(channels), short_rings_(with.posts ? 2 : 1) {
  const auto ranks = static_cast<std::size_t>(nranks);
  const auto pairs = static_cast<std::size_t>(channels) * ranks;
  const std::size_t short_rings = short_rings_ * pairs;
  // Without posts there are half as many rings, of the same length.
  const std::size_t part = with.posts ? 1 : 2;
  const bool alone = (!with.packets && !with.lines128) || !with.posts;
  // A rank sends itself no messages.
  const std::size_t message_slots = std::max<std::size_t>(ranks - 1, 1) * kDeviceMessageDepth;
  const std::size_t message_pool = alone ? kDeviceMessagesAloneBytes : kDeviceMessagePoolBytes;
  message_channels_ = kMostMessageChannels;
  const auto slot_of = [&](int count) { return message_pool / (message_slots * static_cast<std::size_t>(count)); };
  while (message_channels_ > kFewestMessageChannels && slot_of(message_channels_) < kLeastMessageSlot)
    message_channels_ /= 2;
  message_stride_ = std::clamp(RoundDown(slot_of(message_channels_), kAlignment), kAlignment, kMostMessageSlot);
  const std::size_t message_rings = static_cast<std::size_t>(message_channels_) * ranks;
  if (with.packets) {
    const std::size_t share = kDeviceLinePoolBytes / part / (short_rings + ranks) / kDeviceLineDepth;
    // Less a line for the header, which takes a packet.
    const std::size_t lines = std::max(share / kPacket * kPacketData / ring::kCacheLine, std::size_t{2}) - 1;
    line_capacity_ = std::min(lines * ring::kCacheLine, kMostPacketData);
    line_stride_ = (1 + line_capacity_ / kPacketData) * kPacket;
  }
  headers_ = RoundUp((pairs + message_rings) * ring::kCacheLine, kAlignment);
  signals_ = headers_ +
             RoundUp((kHeaderRings * pairs + message_rings) * kDeviceBulkDepth * sizeof(DeviceSlotHeader), kAlignment);
  packets_ = RoundUp(Signals(nranks), kAlignment);
  const std::size_t packets = RoundUp((short_rings + ranks) * kDeviceLineDepth * line_stride_, kAlignment);
  data_ = packets_ + packets;
  const std::size_t messages =
      nranks > 1 ? static_cast<std::size_t>(message_channels_) * message_slots * message_stride_ : 0;
  const std::size_t pool = alone ? kDeviceBulkAloneBytes - std::min(data_ - packets + messages, kDeviceBulkAloneBytes)
                                 : kDeviceBulkPoolBytes;
  // One ring from each peer, and the own post.
  const std::size_t bulk_share = pool / (pairs + static_cast<std::size_t>(channels)) / kDeviceBulkDepth;
  bulk_stride_ = std::clamp(RoundDown(bulk_share, kAlignment), kAlignment, kMostDeviceBulkCapacity);
  messages_ = data_ + (pairs + static_cast<std::size_t>(channels)) * kDeviceBulkDepth * bulk_stride_;
  lines_ = messages_ + messages;
  if (with.lines128) {
    const std::size_t share = kDeviceLine128PoolBytes / part / short_rings / kDeviceLine128Depth;
    constexpr std::size_t kMostLines = (kMostLine128Data + kLine128Data - 1) / kLine128Data;
    const std::size_t lines = std::clamp(share / kLine128, std::size_t{2}, 1 + kMostLines) - 1;
    line128_stride_ = (1 + lines) * kLine128;
    line128_capacity_ = DataOfLines(line128_stride_);
  }
  bytes_ = lines_ + short_rings * kDeviceLine128Depth * line128_stride_;
}

std::size_t DeviceLayout::Head(int channel, int reader, ring::Protocol protocol, bool post) const {
  // One line per reader, which alone writes it.
  const std::size_t line = (static_cast<std::size_t>(channel) * nranks_ + reader) * ring::kCacheLine;
  static_assert(2 * ring::kProtocols * sizeof(std::uint32_t) <= ring::kCacheLine);
  return line + (2 * static_cast<std::size_t>(protocol) + (post ? 1 : 0)) * sizeof(std::uint32_t);
}

std::size_t DeviceLayout::message_capacity(ring::Protocol protocol) const {
  if (protocol == ring::Protocol::line) return line_capacity_;
  if (protocol != ring::Protocol::inlined) return message_stride_;
  return line128_capacity_ > 0 ? DataOfLines(message_stride_) : 0;
}

std::size_t DeviceLayout::Headers(int channel, int writer, bool post) const {
  // Messages' are behind all others.
  const auto pairs = static_cast<std::size_t>(channels_) * static_cast<std::size_t>(nranks_);
  const std::size_t ring = IsForMessages(channel)
                               ? kHeaderRings * pairs + MessageRing(channel) + static_cast<std::size_t>(writer)
                               : Ring(channel, writer, post);
  return headers_ + ring * kDeviceBulkDepth * sizeof(DeviceSlotHeader);
}

std::size_t DeviceLayout::TeamHead(int channel, int reader, bool multicast) const {
  constexpr std::size_t kFirst = 2 * ring::kProtocols * sizeof(std::uint32_t);
  static_assert(kFirst + 2 * sizeof(std::uint32_t) <= ring::kCacheLine);
  return Head(channel, reader, {}, false) + kFirst + (multicast ? sizeof(std::uint32_t) : 0);
}

std::size_t DeviceLayout::TeamHeaders(int channel, int writer, bool multicast) const {
  return headers_ + Ring(channels_ + channel, writer, multicast) * kDeviceBulkDepth * sizeof(DeviceSlotHeader);
}

std::size_t NetworkSlotCapacity(int nranks, std::size_t most) {
  const auto rings = 2 * static_cast<std::size_t>(nranks - 1);
  // The even share, less a line for the header and one that makes the number of lines odd.
  constexpr std::size_t kBeside = 2 * ring::kCacheLine;
  const std::size_t share =
      std::max(kMostBytesOfAChannel / rings / kDeviceBulkDepth, kBeside + ring::kCacheLine) - kBeside;
  return RoundDown(std::min({most, kMostNetworkCapacity, share}), ring::kCacheLine);
}

TeamLayout::TeamLayout(int nranks, int channels) : nranks_(nranks), channels_(channels) {
  const auto rings = 2 * static_cast<std::size_t>(nranks) * static_cast<std::size_t>(channels);
  stride_ = std::clamp(RoundDown(kDeviceTeamPoolBytes / (rings * kDeviceBulkDepth), kAlignment), kAlignment,
                       kMostDeviceBulkCapacity);
}

std::size_t DeviceLayout::Packets(int channel, int writer, bool post) const {
  const std::size_t ring = IsForMessages(channel) ? ShortRing(channel, 0, false) + static_cast<std::size_t>(writer)
                                                  : ShortRing(channel, writer, post);
  return packets_ + ring * kDeviceLineDepth * line_stride_;
}

std::size_t DeviceLayout::Lines128(int channel, int writer, bool post) const {
  return lines_ + ShortRing(channel, writer, post) * kDeviceLine128Depth * line128_stride_;
}

std::size_t DeviceLayout::Data(int channel, int writer) const {
  return data_ + (static_cast<std::size_t>(channel) * (nranks_ + 1) + writer) * kDeviceBulkDepth * bulk_stride_;
}

std::size_t DeviceLayout::PostData(int channel) const { return Data(channel, nranks_); }

// A reader's rings of a channel begin with that of the next rank.
std::size_t DeviceLayout::MessageSlots(int channel, int reader, int writer) const {
  const int place = (writer - reader + nranks_) % nranks_ - 1;
  const std::size_t ring = static_cast<std::size_t>(channel - channels_) * static_cast<std::size_t>(nranks_ - 1) +
                           static_cast<std::size_t>(place);
  return messages_ + ring * kDeviceMessageDepth * message_stride_;
}

}  // namespace tutti::cuda_transport
