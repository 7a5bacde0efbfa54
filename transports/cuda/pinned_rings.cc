#include "transports/cuda/pinned_rings.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/numbers/rounding.h"
#include "transports/shm/memory_nodes.h"

namespace tutti::cuda_transport {
namespace {

std::size_t RingBytes(const ring::SlotShape& shape) { return std::size_t{shape.stride} * shape.depth; }

constexpr std::size_t kHeadsBytes = 2 * ring::kCacheLine;  // of a pair

}  // namespace

PinnedRings::PinnedRings(const CudaDevice& device, const shm::Fabric& shm, int channels, std::size_t most_capacity,
                         const Place& place)
    : device_(device), channels_(channels), place_of_(static_cast<std::size_t>(shm.nranks()), -1) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto capacity = static_cast<std::uint32_t>(NetworkSlotCapacity(shm.nranks(), most_capacity));
  shape_ = place.direct ? ring::SlotShape{ring::kCacheLine, kDeviceBulkDepth, ring::kCacheLine, capacity}
                        : ring::BulkShape(capacity, kDeviceBulkDepth);
  pair_bytes_ = RoundUp(kHeadsBytes + 2 * RingBytes(shape_), page);
  data_bytes_ = place.direct ? RoundUp(std::size_t{capacity} * kDeviceBulkDepth, page) : 0;
  for (int r = 0; r < shm.nranks(); ++r) {
    if (!shm.is_local(r)) place_of_[static_cast<std::size_t>(r)] = places_++;
  }
  const std::size_t pairs = static_cast<std::size_t>(places_) * static_cast<std::size_t>(channels);
  memory_ = shm::Segment::Create("tutti-network", pairs * pair_bytes_);
  // A core dump would take all of it, also what was never touched.
  madvise(memory_.data(), memory_.bytes(), MADV_DONTDUMP);
  if (place.memory_node != shm::kNoMemoryNode) {
    shm::PlacePages(memory_.data(), {{0, memory_.bytes(), place.memory_node}});
  }
  if (place.direct) direct_.emplace(device, pairs * 2 * data_bytes_);
  PinRange(0, std::min(pairs, std::max<std::size_t>(place.bytes_at_first / (pair_bytes_ + 2 * data_bytes_), 1)));
  CuPointer on_device = 0;
  const auto& driver = device.driver();
  const CurrentDevice current(driver, device.context());
  driver.Check(driver.cuMemHostGetDevicePointer(&on_device, memory_.data(), 0), "cuMemHostGetDevicePointer");
  if (reinterpret_cast<std::byte*>(on_device) != memory_.data()) {
    Throw(
        tuttiUnhandledCudaError,
        "device {} has other addresses than the processor for pinned memory, which calls between hosts need to be the "
        "same (TUTTI_GPU=0 makes communicators for host memory)",
        device.ordinal());
  }
}

void PinnedRings::PinRange(std::size_t begin, std::size_t end) {
  if (direct_) direct_->Fill(begin * 2 * data_bytes_, end * 2 * data_bytes_);
  pinned_.try_emplace(begin, end, device_, memory_.data() + begin * pair_bytes_, (end - begin) * pair_bytes_);
}

bool PinnedRings::Pinned(std::size_t pair) const {
  const auto after = pinned_.upper_bound(pair);
  return after != pinned_.begin() && pair < std::prev(after)->second.end;
}

void PinnedRings::Pin(const std::set<RingPair>& pairs) {
  std::vector<std::size_t> missing;
  for (const auto& [channel, peer] : pairs) {
    const std::size_t pair = Pair(channel, peer);
    if (!Pinned(pair)) missing.push_back(pair);
  }
  std::ranges::sort(missing);
  // Neighbours in one go.
  for (auto each = missing.begin(); each != missing.end();) {
    const std::size_t begin = *each;
    std::size_t end = begin;
    for (; each != missing.end() && *each <= end; ++each) end = *each + 1;
    PinRange(begin, end);
  }
}

// Messages' channels, which are behind the collectives', come first here: they are used with any peer.
std::size_t PinnedRings::Pair(int channel, int peer) const {
  const int place = (channel + kFewestMessageChannels) % channels_;
  return static_cast<std::size_t>(place) * static_cast<std::size_t>(places_) +
         static_cast<std::size_t>(place_of_[static_cast<std::size_t>(peer)]);
}

progress::RingMemory PinnedRings::Ring(int channel, int peer, bool outgoing) const {
  progress::RingMemory ring{Begin(channel, peer) + kHeadsBytes + (outgoing ? RingBytes(shape_) : 0), shape_};
  if (direct_) {
    std::byte* const data = direct_->data() + (Pair(channel, peer) * 2 + (outgoing ? 1 : 0)) * data_bytes_;
    ring.apart = {data, shape_.capacity, data_bytes_, &*direct_};
  }
  return ring;
}

std::uint32_t* PinnedRings::Head(int channel, int peer, bool outgoing) const {
  return reinterpret_cast<std::uint32_t*>(Begin(channel, peer) + (outgoing ? ring::kCacheLine : 0));
}

std::vector<progress::ConnectionRings> PinnedRings::With(int peer) const {
  using Count = std::atomic<std::uint32_t>;
  static_assert(sizeof(Count) == sizeof(std::uint32_t), "a GPU knows them as plain words");
  std::vector<progress::ConnectionRings> all;
  for (int c = 0; c < channels_; ++c) {
    all.push_back({{Ring(c, peer, true), Ring(c, peer, false)},
                   reinterpret_cast<Count*>(Head(c, peer, true)),
                   reinterpret_cast<const Count*>(Head(c, peer, false))});
  }
  return all;
}

PinnedRings::Ends PinnedRings::EndsWith(int channel, int peer) const {
  const auto out = Ring(channel, peer, true), in = Ring(channel, peer, false);
  Ends ends{};
  ends.fill.data = out.Data(0);
  ends.fill.reader_count = 1;
  ends.fill.stride = ends.empty.stride = direct_ ? out.apart.stride : shape_.stride;
  ends.fill.header_stride = ends.empty.header_stride = shape_.stride;
  ends.fill.depth = shape_.depth;
  ends.reader = {reinterpret_cast<DeviceSlotHeader*>(out.slots), nullptr, Head(channel, peer, true)};
  ends.empty.headers = reinterpret_cast<const DeviceSlotHeader*>(in.slots);
  ends.empty.data = in.Data(0);
  ends.empty.head = Head(channel, peer, false);
  ends.empty.depth = shape_.depth;
  ends.empty.peer = peer;
  return ends;
}

}  // namespace tutti::cuda_transport
