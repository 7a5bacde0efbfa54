// Where everything lies in the memory that a rank lends to its peers' GPUs. A pure function of what all ranks know, so
// no offset is ever sent.
//
//   [ heads | headers | signals | packets | data | lines ]         zeroed but for the data
// A ring's slots lie in the reader's memory; but a post's data, which all others read, lies in the writer's. Offsets
// below are of what lies in one rank's memory, by the peer at the other end. Lines of 128 bytes lie last, because memory of
// the host has none (line128_support.h).
#pragma once

#include <cstddef>

#include "transports/ring/layout.h"

namespace tutti::cuda_transport {

// Every rank's bulk slots together, as on the host (layout.h). Packets take half of that at the most.
inline constexpr std::size_t kDeviceBulkPoolBytes = std::size_t{64} << 20;
inline constexpr std::size_t kDeviceLinePoolBytes = std::size_t{32} << 20;
inline constexpr std::uint32_t kDeviceBulkDepth = 4;
inline constexpr std::uint32_t kDeviceLineDepth = 8;
// Lines of 128 bytes, for messages between packets' and bulk slots'. As with bulk slots, few long ones are better than
// many short ones: a step costs a us, however short its slot is. The longest holds the longest chunk that is tried
// (candidates.cc).
inline constexpr std::size_t kDeviceLine128PoolBytes = std::size_t{32} << 20;
inline constexpr std::uint32_t kDeviceLine128Depth = 4;
inline constexpr std::size_t kMostLine128Data = 64 * 1024;
// Above this slot size the bulk protocol is faster, because packets take twice the bytes.
inline constexpr std::size_t kMostPacketData = 8 * 1024;
inline constexpr std::size_t kMostDeviceBulkCapacity = std::size_t{512} * 1024;

// Messages between pairs are ordered separately, so they have their own channels, behind the collectives'.
inline constexpr int kMessageChannels = 4;

class DeviceLayout {
 public:
  // REQUIRES: nranks >= 1, channels >= 1. `lines128`: there are slots of lines of 128 bytes.
  DeviceLayout(int nranks, int channels, bool lines128);

  int nranks() const { return nranks_; }
  int channels() const { return channels_; }
  std::size_t bytes() const { return bytes_; }
  // Of these, what a piece of host memory has: all but the lines.
  std::size_t bytes_on_host() const { return lines_; }
  // The memory that is zeroed: so much at the beginning, and the lines from their beginning on.
  std::size_t zeroed_bytes() const { return data_; }
  std::size_t lines_at() const { return lines_; }
  std::size_t head_bytes() const { return headers_; }
  // Data bytes of a slot.
  std::size_t line_capacity() const { return line_capacity_; }
  std::size_t line128_capacity() const { return line128_capacity_; }  // 0: there are none
  std::size_t bulk_capacity() const { return bulk_stride_; }
  std::size_t line_stride() const { return line_stride_; }
  std::size_t line128_stride() const { return line128_stride_; }
  std::size_t bulk_stride() const { return bulk_stride_; }

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
  std::size_t Packets(int channel, int writer, bool post) const;
  std::size_t Lines128(int channel, int writer, bool post) const;
  std::size_t Data(int channel, int writer) const;
  // For this rank's own post.
  std::size_t PostData(int channel) const;

 private:
  std::size_t Ring(int channel, int writer, bool post) const {
    return (static_cast<std::size_t>(channel) * nranks_ + writer) * 2 + (post ? 1 : 0);
  }

  int nranks_;
  int channels_;
  std::size_t line_capacity_, line_stride_, line128_capacity_ = 0, line128_stride_ = 0, bulk_stride_;
  std::size_t headers_, signals_, packets_, data_, lines_, bytes_;
};

// Where slots lie in the memory that a switch between GPUs adds and multiplies (team_memory.h), the same on all ranks. A
// rank's contributions lie in its own memory, and the multicasts of all ranks in everybody's.
inline constexpr std::size_t kDeviceTeamPoolBytes = std::size_t{64} << 20;

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
