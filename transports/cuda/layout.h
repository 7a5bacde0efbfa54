// Where everything lies in the memory that a rank lends to its peers' GPUs. A pure function of what all ranks know, so
// no offset is ever sent.
//
//   [ heads | headers | signals | packets | data | messages | lines ]         zeroed but for the data
// A ring's slots lie in the reader's memory; but a post's data, which all others read, lies in the writer's. Offsets
// below are of what lies in one rank's memory, by the peer at the other end. Only ranks of one host use each other's
// memory, so a rank is here its place among those of its host. Lines of 128 bytes lie last, because memory of the host
// has none (line128_support.h).
//
// Messages between pairs are ordered separately, so they have channels of their own, behind the collectives', with
// shorter slots and without posts. Their slots hold data or lines, the same for all messages of a communicator.
#pragma once

#include <cstddef>

#include "transports/ring/layout.h"

namespace tutti::cuda_transport {

// The bulk slots of a rank's collectives together. Packets take half of that at the most.
inline constexpr std::size_t kDeviceBulkPoolBytes = std::size_t{57} << 20;
// All that a rank lends besides packets and lines on several hosts, where a chunk of bulk slots must fit those between hosts,
// too (docs/notebook/gpu/proxy.md); and where it has bulk slots alone. Messages take the smaller part.
inline constexpr std::size_t kDeviceBulkAloneBytes = std::size_t{100} << 20;
inline constexpr std::size_t kDeviceMessagesAloneBytes = std::size_t{12} << 20;
inline constexpr std::size_t kDeviceLinePoolBytes = std::size_t{57} << 19;
inline constexpr std::uint32_t kDeviceBulkDepth = 4;
inline constexpr std::uint32_t kDeviceLineDepth = 8;
// Lines of 128 bytes, for messages between packets' and bulk slots'. As with bulk slots, few long ones are better than
// many short ones: a step costs a us, however short its slot is. The longest holds the longest chunk that is tried
// (candidates.cc).
inline constexpr std::size_t kDeviceLine128PoolBytes = std::size_t{57} << 19;
inline constexpr std::uint32_t kDeviceLine128Depth = 4;
inline constexpr std::size_t kMostLine128Data = 64 * 1024;
// Above this slot size the bulk protocol is faster, because packets take twice the bytes.
inline constexpr std::size_t kMostPacketData = 8 * 1024;
inline constexpr std::size_t kMostDeviceBulkCapacity = std::size_t{512} * 1024;

// The slots of a rank's messages from all peers together. A pair has as many channels as fill a link, because one
// thread block moves a small part of what it carries, but fewer long slots are better than many that are shorter than
// kLeastMessageSlot: an H100's block copies so much in the time that a step takes without any data.
inline constexpr std::size_t kDeviceMessagePoolBytes = std::size_t{14} << 20;
inline constexpr std::size_t kLeastMessageSlot = std::size_t{12} << 10;
inline constexpr std::uint32_t kDeviceMessageDepth = 4;
static_assert(kDeviceMessageDepth == kDeviceBulkDepth && kDeviceMessageDepth == kDeviceLine128Depth);
inline constexpr int kMostMessageChannels = 32;
// At least, and between hosts.
inline constexpr int kFewestMessageChannels = 4;

class DeviceLayout {
 public:
  // Slots beside those of bulk. `posts`: for posts too, which reach one host.
  struct Short {
    bool packets;
    bool lines128;
    bool posts = true;
  };
  // `nranks`: the most on any host, so that slots have one length everywhere. `channels`: the collectives'.
  // REQUIRES: nranks >= 1, channels >= 1.
  DeviceLayout(int nranks, int channels, Short with);

  int nranks() const { return nranks_; }
  int channels() const { return channels_; }
  // Channels channels(), channels() + 1, ... are for messages.
  int message_channels() const { return message_channels_; }
  bool IsForMessages(int channel) const { return channel >= channels_; }
  std::size_t bytes() const { return bytes_; }
  // Of these, what a piece of host memory has: all but the collectives' lines.
  std::size_t bytes_on_host() const { return lines_; }
  // The memory that is zeroed: so much at the beginning, and what may hold lines, from here to the end.
  std::size_t zeroed_bytes() const { return data_; }
  std::size_t may_hold_lines_at() const { return line128_capacity_ > 0 ? messages_ : bytes_; }
  std::size_t head_bytes() const { return headers_; }
  // Data bytes of a slot.
  std::size_t line_capacity() const { return line_capacity_; }        // 0: there are none
  std::size_t line128_capacity() const { return line128_capacity_; }  // likewise
  std::size_t bulk_capacity() const { return bulk_stride_; }
  std::size_t line_stride() const { return line_stride_; }
  std::size_t line128_stride() const { return line128_stride_; }
  std::size_t bulk_stride() const { return bulk_stride_; }
  // The same of messages' slots; packets have the collectives' length.
  std::size_t message_stride() const { return message_stride_; }
  std::size_t message_capacity(ring::Protocol protocol) const;

  // Where `reader` publishes how far it has emptied this rank's ring for it, or its post.
  std::size_t Head(int channel, int reader, ring::Protocol protocol, bool post) const;
  // For the ring that `writer` fills for this rank, or for the post that it fills for all.
  std::size_t Headers(int channel, int writer, bool post) const;
  // The same for what a team shares (TeamLayout): contributions to this rank, and multicasts.
  std::size_t TeamHead(int channel, int reader, bool multicast) const;
  std::size_t TeamHeaders(int channel, int writer, bool multicast) const;
  // Where `writer` counts the signals that it has sent to this rank: ring::kSignals words of 64 bits.
  std::size_t Signals(int writer) const {
    return signals_ + static_cast<std::size_t>(writer) * ring::kSignals * sizeof(std::uint64_t);
  }
  // Of messages, only the first channel has them.
  std::size_t Packets(int channel, int writer, bool post) const;
  std::size_t Lines128(int channel, int writer, bool post) const;
  std::size_t Data(int channel, int writer) const;
  // For this rank's own post.
  std::size_t PostData(int channel) const;
  // The slots in `reader`'s memory of the messages that `writer` sends. REQUIRES: IsForMessages(channel); two ranks.
  std::size_t MessageSlots(int channel, int reader, int writer) const;

 private:
  std::size_t Ring(int channel, int writer, bool post) const {
    return (static_cast<std::size_t>(channel) * nranks_ + writer) * 2 + (post ? 1 : 0);
  }

  // The first of a channel for messages, counted from the first such channel.
  std::size_t MessageRing(int channel) const {
    return static_cast<std::size_t>(channel - channels_) * static_cast<std::size_t>(nranks_);
  }

  // A ring of packets or lines.
  std::size_t ShortRing(int channel, int writer, bool post) const {
    return (static_cast<std::size_t>(channel) * nranks_ + writer) * short_rings_ + (post ? 1 : 0);
  }

  int nranks_;
  int channels_;
  int message_channels_;
  std::size_t short_rings_;  // of a pair in a channel: one, and one for posts
  std::size_t line_capacity_ = 0, line_stride_ = 0, line128_capacity_ = 0, line128_stride_ = 0, bulk_stride_;
  std::size_t message_stride_;
  std::size_t headers_, signals_, packets_, data_, messages_, lines_, bytes_;
};

// Data bytes of a slot between GPUs of different hosts (pinned_rings.h), at most `most`. Depends only on what is equal on
// all ranks, because plans depend on it: so `nranks` are all, those of the same host, too. REQUIRES: nranks >= 2.
std::size_t NetworkSlotCapacity(int nranks, std::size_t most);

// Where slots lie in the memory that a switch between GPUs adds and multiplies (team_memory.h), the same on all ranks. A
// rank's contributions lie in its own memory, and the multicasts of all ranks in everybody's.
inline constexpr std::size_t kDeviceTeamPoolBytes = std::size_t{64} << 20;
// The channels that have such slots, of so many. On several hosts what a switch adds goes on in messages, which cost more than
// their bytes: there few channels have slots as long as those between hosts.
inline constexpr int kTeamChannelsOfSeveralHosts = 12;
constexpr int TeamChannels(int channels, bool one_host) {
  return one_host || channels < kTeamChannelsOfSeveralHosts ? channels : kTeamChannelsOfSeveralHosts;
}

class TeamLayout {
 public:
  // REQUIRES: nranks >= 1, channels >= 1.
  TeamLayout(int nranks, int channels);

  std::size_t bytes() const { return Place(channels_, 0, false); }
  std::size_t stride() const { return stride_; }  // of a slot: its data bytes
  std::size_t Contribution(int channel, int reader) const { return Place(channel, reader, false); }
  std::size_t Multicast(int channel, int writer) const { return Place(channel, writer, true); }

 private:
  std::size_t Place(int channel, int rank, bool multicast) const {
    const std::size_t ring = (static_cast<std::size_t>(channel) * 2 + (multicast ? 1 : 0)) * nranks_ + rank;
    return ring * kDeviceBulkDepth * stride_;
  }

  int nranks_, channels_;
  std::size_t stride_;
};

}  // namespace tutti::cuda_transport
