#include "transports/cuda/pinned_rings.h"

#include <algorithm>
#include <cstring>

#include "base/numbers/rounding.h"

namespace tutti::cuda_transport {
namespace {

std::size_t RingBytes(const ring::SlotShape& shape) { return std::size_t{shape.stride} * shape.depth; }

// Depends only on values that are equal on all ranks, because plans depend on it: so it counts the local ranks, too.
ring::SlotShape ShapeFor(int nranks, int channels, std::size_t most_capacity) {
  const auto rings = 2 * static_cast<std::size_t>(channels) * static_cast<std::size_t>(nranks - 1);
  // The even share, less a line for the header and one that makes the number of lines odd.
  constexpr std::size_t kBeside = 2 * ring::kCacheLine;
  const std::size_t share = std::max(kPinnedPoolBytes / rings / kDeviceBulkDepth, kBeside + ring::kCacheLine) - kBeside;
  const auto capacity = RoundDown(std::min(most_capacity, share), ring::kCacheLine);
  return ring::BulkShape(static_cast<std::uint32_t>(capacity), kDeviceBulkDepth);
}

}  // namespace

PinnedRings::PinnedRings(const CudaDriver& driver, CuContext context, const shm::Fabric& shm, int channels,
                         std::size_t most_capacity)
    : channels_(channels),
      place_of_(static_cast<std::size_t>(shm.nranks()), -1),
      shape_(ShapeFor(shm.nranks(), channels, most_capacity)) {
  int places = 0;
  for (int r = 0; r < shm.nranks(); ++r) {
    if (!shm.is_local(r)) place_of_[static_cast<std::size_t>(r)] = places++;
  }
  const std::size_t rings = static_cast<std::size_t>(places) * static_cast<std::size_t>(channels) * 2;
  slots_at_ = rings * ring::kCacheLine;
  memory_ = CudaMemory::Pinned(driver, context, slots_at_ + rings * RingBytes(shape_));
  std::memset(memory_.data(), 0, slots_at_);
  for (std::size_t slot = 0; slot < rings * shape_.depth; ++slot) {
    std::memset(memory_.data() + slots_at_ + slot * shape_.stride, 0, sizeof(ring::SlotHeader));
  }
}

std::byte* PinnedRings::Slots(int channel, int peer, bool outgoing) const {
  return memory_.data() + slots_at_ + Ring(channel, peer, outgoing) * RingBytes(shape_);
}

std::uint32_t* PinnedRings::Head(int channel, int peer, bool outgoing) const {
  return reinterpret_cast<std::uint32_t*>(memory_.data() + Ring(channel, peer, outgoing) * ring::kCacheLine);
}

std::vector<progress::ConnectionRings> PinnedRings::With(int peer) const {
  using Count = std::atomic<std::uint32_t>;
  static_assert(sizeof(Count) == sizeof(std::uint32_t), "a GPU knows them as plain words");
  std::vector<progress::ConnectionRings> all;
  for (int c = 0; c < channels_; ++c) {
    all.push_back({Slots(c, peer, true), Slots(c, peer, false), shape_, reinterpret_cast<Count*>(Head(c, peer, true)),
                   reinterpret_cast<const Count*>(Head(c, peer, false))});
  }
  return all;
}

PinnedRings::Ends PinnedRings::EndsWith(int channel, int peer) const {
  std::byte* const out = Slots(channel, peer, true);
  std::byte* const in = Slots(channel, peer, false);
  Ends ends{};
  ends.fill.data = out + shape_.data_offset;
  ends.fill.reader_count = 1;
  ends.fill.stride = ends.fill.header_stride = shape_.stride;
  ends.fill.depth = shape_.depth;
  ends.reader = {reinterpret_cast<DeviceSlotHeader*>(out), nullptr, Head(channel, peer, true)};
  ends.empty.headers = reinterpret_cast<const DeviceSlotHeader*>(in);
  ends.empty.data = in + shape_.data_offset;
  ends.empty.head = Head(channel, peer, false);
  ends.empty.stride = ends.empty.header_stride = shape_.stride;
  ends.empty.depth = shape_.depth;
  ends.empty.peer = peer;
  return ends;
}

}  // namespace tutti::cuda_transport
