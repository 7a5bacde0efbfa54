#include "transports/cuda/fabric.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/fork_safe_mutex.h"
#include "base/log.h"
#include "base/threads/made_once.h"
#include "transports/shm/gather_values.h"
#include "transports/shm/process_register.h"
#include "transports/shm/shared_segments.h"

namespace tutti::cuda_transport {

CudaDevice::CudaDevice(const CudaDriver& driver, int ordinal) : driver_(driver), ordinal_(ordinal) {
  int count = 0;
  driver.Check(driver.cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (ordinal < 0 || ordinal >= count) {
    Throw(tuttiInvalidArgument, "device is {}; this process sees {} CUDA device{}", ordinal, count,
          count == 1 ? "" : "s");
  }
  driver.Check(driver.cuDeviceGet(&device_, ordinal), "cuDeviceGet");
  driver.Check(driver.cuDeviceGetUuid(&uuid_, device_), "cuDeviceGetUuid");
  const auto retained = driver.cuDevicePrimaryCtxRetain(&context_, device_);
  if (retained == kCuErrorDeviceUnavailable) {
    Throw(tuttiUnhandledCudaError,
          "device {} is unavailable: another process has it to itself, or it takes no work (`nvidia-smi -q -d COMPUTE` "
          "tells its compute mode)",
          ordinal);
  }
  driver.Check(retained, "cuDevicePrimaryCtxRetain");
}

CudaDevice::~CudaDevice() { driver_.cuDevicePrimaryCtxRelease(device_); }

int CudaDevice::Attribute(int attribute) const {
  int value = 0;
  driver_.Check(driver_.cuDeviceGetAttribute(&value, attribute, device_), "cuDeviceGetAttribute");
  return value;
}

bool CudaDevice::Reaches(const CudaDevice& other) const {
  if (IsSame(other.uuid_)) return true;
  int can = 0;
  driver_.Check(driver_.cuDeviceCanAccessPeer(&can, device_, other.device_), "cuDeviceCanAccessPeer");
  if (can == 0) return false;
  const CurrentDevice current(driver_, context_);
  const auto result = driver_.cuCtxEnablePeerAccess(other.context_, 0);
  return result == kCuSuccess || result == kCuErrorPeerAccessAlreadyEnabled;
}

bool CudaDevice::IsSame(const CuUuid& uuid) const { return std::memcmp(&uuid_, &uuid, sizeof uuid) == 0; }

std::optional<ShareableBuffer> ShareableBufferOf(const CudaDevice& device, const void* buffer, std::size_t bytes) {
  const auto& driver = device.driver();
  const CurrentDevice current(driver, device.context());
  const auto address = reinterpret_cast<CuPointer>(buffer);
  CuPointer base = 0;
  std::size_t size = 0;
  if (driver.cuMemGetAddressRange(&base, &size, address) != kCuSuccess) return std::nullopt;
  if (address - base > size || bytes > size - (address - base)) return std::nullopt;
  ShareableBuffer shareable{{}, address - base};
  if (driver.cuIpcGetMemHandle(&shareable.handle, base) != kCuSuccess) return std::nullopt;
  return shareable;
}

OpenedMemory::OpenedMemory(const CudaDevice& device, const CuIpcHandle& handle) : device_(&device) {
  const CurrentDevice current(device.driver(), device.context());
  CuPointer pointer = 0;
  device.driver().Check(device.driver().cuIpcOpenMemHandle(&pointer, handle, kCuIpcLazyPeerAccess),
                        "cuIpcOpenMemHandle");
  data_ = reinterpret_cast<std::byte*>(pointer);
}

std::byte* OpenedMemory::Part(std::uint64_t offset, std::uint64_t bytes) const {
  const auto& driver = device_->driver();
  const CurrentDevice current(driver, device_->context());
  std::size_t size = 0;
  if (driver.cuMemGetAddressRange(nullptr, &size, reinterpret_cast<CuPointer>(data_)) != kCuSuccess) {
    Log(Subject::transport,
        "the driver does not report the size of another process's memory: its owner's figure is trusted");
  } else if (offset > size || bytes > size - offset) {
    Throw(tuttiInternalError, "a peer offered {} bytes from byte {} of an allocation that has {} bytes", bytes, offset,
          size);
  }
  return data_ + offset;
}

OpenedMemory::~OpenedMemory() {
  if (data_ == nullptr) return;
  const auto& driver = device_->driver();
  ReleaseIn(driver, device_->context(), [&] { driver.cuIpcCloseMemHandle(reinterpret_cast<CuPointer>(data_)); });
}

namespace {

// Ranks of one process share a mapping, which the driver pins once.
struct Pins {
  std::mutex mutex;
  std::map<std::byte*, int> users;
};
Pins& ThePins() {
  static auto* const pins = new Pins;  // never destroyed: communicators may outlive the end of main()
  return *pins;
}

}  // namespace

PinnedSegment::PinnedSegment(const CudaDevice& device, shm::Segment segment)
    : device_(device), segment_(std::move(segment)) {
  const auto& driver = device.driver();
  const CurrentDevice current(driver, device.context());
  auto& pins = ThePins();
  const std::lock_guard lock(pins.mutex);
  auto& users = pins.users[segment_.data()];
  if (users == 0) {
    driver.Check(
        driver.cuMemHostRegister(segment_.data(), segment_.bytes(), kCuHostRegisterPortable | kCuHostRegisterDeviceMap),
        "cuMemHostRegister");
  }
  ++users;
  CuPointer data = 0;
  driver.Check(driver.cuMemHostGetDevicePointer(&data, segment_.data(), 0), "cuMemHostGetDevicePointer");
  data_ = reinterpret_cast<std::byte*>(data);
}

PinnedSegment::~PinnedSegment() {
  auto& pins = ThePins();
  const std::lock_guard lock(pins.mutex);
  const auto found = pins.users.find(segment_.data());
  if (--found->second > 0) return;
  pins.users.erase(found);
  const auto& driver = device_.driver();
  ReleaseIn(driver, device_.context(), [&] { driver.cuMemHostUnregister(segment_.data()); });
}

// A rank's description of itself.
struct DeviceFabric::Introduction {
  CuUuid uuid;
  std::int32_t ordinal;
  shm::RegisterKey memory;  // its memory_, for ranks of the same process
  CuIpcHandle handle;       // for the others
};

void DeviceFabric::Abandon() {
  struct Abandoned {
    ForkSafeMutex mutex;
    std::vector<std::shared_ptr<CudaMemory>> memory;
  };
  static constinit MadeOnce<Abandoned> all;
  const std::lock_guard lock(all.Get().mutex);
  all.Get().memory.push_back(memory_);
}

DeviceFabric::DeviceFabric(const CudaDevice& device, int channels, const shm::Fabric& shm, bool p2p, bool lines128,
                           std::uint32_t count_from, const shm::AllGather& all_gather, Deadline deadline)
    : device_(device),
      shm_(shm),
      rank_(shm.rank()),
      nranks_(shm.nranks()),
      layout_(nranks_, channels, lines128),
      memory_(std::make_shared<CudaMemory>(CudaMemory::OnDevice(device.driver(), device.context(), layout_.bytes()))),
      peers_(static_cast<std::size_t>(nranks_)) {
  SideStream side(device.driver(), device.context());
  side.Zero(memory_->data(), layout_.zeroed_bytes());
  if (lines128) side.Zero(memory_->data() + layout_.lines_at(), layout_.bytes() - layout_.lines_at());
  if (count_from != 0) {
    const std::vector<std::uint32_t> heads(layout_.head_bytes() / sizeof(std::uint32_t), count_from);
    side.Copy(memory_->data(), heads.data(), layout_.head_bytes());
  }
  const shm::Offer offer(rank_, memory_);
  Introduction mine{device.uuid(), device.ordinal(), offer.key(), {}};
  {
    const CurrentDevice current(device.driver(), device.context());
    // Without a handle, peers in other processes find it void and meet this rank in host memory.
    device.driver().cuIpcGetMemHandle(&mine.handle, reinterpret_cast<CuPointer>(memory_->data()));
  }
  const auto all = shm::GatherValues(all_gather, mine);
  ReachPeers(all, p2p);
  CompareReach(all_gather);
  const bool all_meet = std::ranges::all_of(
      reach_, [](const auto& row) { return std::ranges::all_of(row, [](bool reaches) { return reaches; }); });
  if (!all_meet) MeetInHostMemory(count_from, all_gather, deadline);
  if (shm.hosts().count() > 1) {
    across_.emplace(device.driver(), device.context(), shm, channels, layout_.bulk_capacity());
  }
  all_reach_ = all_meet && !across_;
  one_device_ = one_device_ && all_meet;
  MakeEnds(count_from);
  all_gather({});  // no rank's kernel begins before every rank's memory is zeroed and reached
  Log(Subject::init, "rank {}: device {}, {} B of its memory lent to peers, {} ranks share a launch{}", rank_,
      device.ordinal(), layout_.bytes(), fused_.size(),
      all_meet ? "" : "; some pairs of devices exchange data through host memory");
}

// Compares which ranks of a host reach each other. If one rank of a pair cannot reach the other, neither does.
void DeviceFabric::CompareReach(const shm::AllGather& all_gather) {
  std::vector<std::byte> reached;
  for (const auto& peer : peers_) reached.push_back(std::byte{peer.device != nullptr});
  const auto theirs = all_gather(reached);
  reach_.assign(peers_.size(), std::vector<bool>(peers_.size(), true));
  for (std::size_t a = 0; a < peers_.size(); ++a) {
    if (theirs[a].size() != peers_.size())
      Throw(tuttiInternalError, "rank {} sent a malformed list of reachable devices", a);
    for (std::size_t b = 0; b < peers_.size(); ++b) {
      const bool same_host = shm_.hosts().SameHost(static_cast<int>(a), static_cast<int>(b));
      if (same_host && theirs[a][b] == std::byte{0}) reach_[a][b] = reach_[b][a] = false;
    }
  }
}

void DeviceFabric::ReachPeers(const std::vector<Introduction>& all, bool p2p) {
  for (int r = 0; r < nranks_; ++r) {
    const auto& theirs = all[static_cast<std::size_t>(r)];
    auto& peer = peers_[static_cast<std::size_t>(r)];
    const bool same_device = device_.IsSame(theirs.uuid);
    const bool same_process = shm_.same_process(r);
    if (same_device && same_process) fused_.push_back(r);
    if (by_network(r)) {
      one_device_ = one_process_ = false;
      continue;
    }
    one_device_ = one_device_ && same_device;
    one_process_ = one_process_ && same_process;
    if (r != rank_ && !p2p) continue;

    if (same_process) {
      if (!same_device) peer.gpu = std::make_unique<CudaDevice>(device_.driver(), theirs.ordinal);
      if (same_device || device_.Reaches(*peer.gpu)) {
        peer.shared = r == rank_ ? memory_ : shm::FindOffer<CudaMemory>(theirs.memory, r);
        if (peer.shared == nullptr)
          Throw(tuttiRemoteError, "rank {} of this process left while the ranks connected their GPUs", r);
        peer.device = peer.shared->data();
      }
      continue;
    }
    try {
      peer.opened = OpenedMemory(device_, theirs.handle);
      peer.device = peer.opened.Part(0, layout_.bytes());
    } catch (const Error& error) {
      Log(Subject::init, "rank {} cannot reach the device of rank {}: {}", rank_, r, error.what());
    }
  }
}

// Every rank makes a second piece of the same layout in host memory, for pairs that do not reach each other.
void DeviceFabric::MeetInHostMemory(std::uint32_t count_from, const shm::AllGather& all_gather, Deadline deadline) {
  auto segments = shm::ShareSegments(shm_, "tutti-pinned", layout_.bytes_on_host(), all_gather, deadline);
  if (count_from != 0) {
    auto* const heads = reinterpret_cast<std::uint32_t*>(segments[static_cast<std::size_t>(rank_)].data());
    std::fill_n(heads, layout_.head_bytes() / sizeof(std::uint32_t), count_from);
  }
  for (std::size_t r = 0; r < peers_.size(); ++r) {
    // Needed also for a rank that we reach, if another rank does not: its posts are there.
    const bool needed =
        static_cast<int>(r) == rank_ || std::find(reach_[r].begin(), reach_[r].end(), false) != reach_[r].end();
    if (!needed || by_network(static_cast<int>(r))) continue;
    peers_[r].host = std::make_shared<PinnedSegment>(device_, std::move(segments[r]));
    peers_[r].pinned = peers_[r].host->data();
  }
}

std::byte* DeviceFabric::Shared(int owner, int other) const {
  const auto& memory = peers_[static_cast<std::size_t>(owner)];
  return reach_[static_cast<std::size_t>(owner)][static_cast<std::size_t>(other)] ? memory.device : memory.pinned;
}

namespace {

struct DeviceRing {
  std::uint32_t stride, depth;
};
DeviceRing ShapeOf(ring::Protocol protocol, const DeviceLayout& layout) {
  switch (protocol) {
    case ring::Protocol::line: return {static_cast<std::uint32_t>(layout.line_stride()), kDeviceLineDepth};
    case ring::Protocol::inlined: return {static_cast<std::uint32_t>(layout.line128_stride()), kDeviceLine128Depth};
    default: return {static_cast<std::uint32_t>(layout.bulk_stride()), kDeviceBulkDepth};
  }
}

}  // namespace

void DeviceFabric::MakeEnds(std::uint32_t count_from) {
  const auto channels = layout_.channels();
  std::vector<DeviceEmptyEnd> empties(EmptyIndex(channels, ring::Protocol::line, 0, false));
  std::vector<DeviceFillEnd> fills(FillIndex(channels, ring::Protocol::line, 0));
  std::vector<DeviceReader> readers;
  // The readers of fill end f are readers[first[f]], ...; their address is known only when all have been found.
  std::vector<std::size_t> first(fills.size());

  // A post's data lies in device memory if all ranks reach it there.
  const auto post_memory = [&](int writer) {
    const auto& row = reach_[static_cast<std::size_t>(writer)];
    const bool all = std::find(row.begin(), row.end(), false) == row.end();
    return all ? peers_[static_cast<std::size_t>(writer)].device : peers_[static_cast<std::size_t>(writer)].pinned;
  };
  // Where the slots of packets or lines lie that `writer` fills.
  const auto slots_at = [&](int channel, int writer, ring::Protocol protocol, bool post) {
    return protocol == ring::Protocol::inlined ? layout_.Lines128(channel, writer, post)
                                               : layout_.Packets(channel, writer, post);
  };
  const auto reader_of = [&](int channel, int reader, ring::Protocol protocol, bool post) {
    std::byte* const theirs = Shared(reader, rank_);
    return DeviceReader{
        reinterpret_cast<DeviceSlotHeader*>(theirs + layout_.Headers(channel, rank_, post)),
        theirs + slots_at(channel, rank_, protocol, post),
        reinterpret_cast<std::uint32_t*>(Shared(rank_, reader) + layout_.Head(channel, reader, protocol, post))};
  };
  const auto begin_fill = [&](std::uint32_t index, ring::Protocol protocol, std::byte* data) {
    const auto shape = ShapeOf(protocol, layout_);
    first[index] = readers.size();
    fills[index].data = data;
    fills[index].stride = shape.stride;
    fills[index].header_stride = sizeof(DeviceSlotHeader);
    fills[index].depth = shape.depth;
    fills[index].tail = fills[index].known_head = count_from;
  };

  for (int channel = 0; channel < channels; ++channel) {
    for (int p = 0; p < ring::kProtocols; ++p) {
      const auto protocol = static_cast<ring::Protocol>(p);
      if (protocol == ring::Protocol::inlined && line128_capacity() == 0) continue;
      for (int peer = 0; peer < nranks_; ++peer) {
        if (peer == rank_) continue;
        const auto to = To(channel, protocol, peer);
        if (by_network(peer)) {
          if (protocol != ring::Protocol::bulk) continue;
          const auto ends = across_->EndsWith(channel, peer);
          first[to] = readers.size();
          fills[to] = ends.fill;
          readers.push_back(ends.reader);
          empties[From(channel, protocol, peer)] = ends.empty;
          continue;
        }
        begin_fill(to, protocol, Shared(peer, rank_) + layout_.Data(channel, rank_));
        readers.push_back(reader_of(channel, peer, protocol, false));
        fills[to].reader_count = 1;
        for (const bool post : {false, true}) {
          std::byte* const mine = Shared(rank_, peer);
          std::byte* const data =
              post ? post_memory(peer) + layout_.PostData(channel) : mine + layout_.Data(channel, peer);
          empties[EmptyIndex(channel, protocol, peer, post)] = {
              reinterpret_cast<const DeviceSlotHeader*>(mine + layout_.Headers(channel, peer, post)),
              mine + slots_at(channel, peer, protocol, post),
              data,
              reinterpret_cast<std::uint32_t*>(Shared(peer, rank_) + layout_.Head(channel, rank_, protocol, post)),
              fills[to].stride,
              fills[to].header_stride,
              fills[to].depth,
              count_from,
              peer,
              0};
        }
      }
      const auto post = Post(channel, protocol);
      begin_fill(post, protocol, post_memory(rank_) + layout_.PostData(channel));
      for (int peer = 0; peer < nranks_; ++peer) {
        if (peer != rank_ && !by_network(peer)) readers.push_back(reader_of(channel, peer, protocol, true));
      }
      fills[post].reader_count = static_cast<std::uint32_t>(readers_of_posts());
    }
  }

  fills_at_ = empties.size() * sizeof(DeviceEmptyEnd);
  const std::size_t readers_at = fills_at_ + fills.size() * sizeof(DeviceFillEnd);
  std::vector<std::byte> image(readers_at + readers.size() * sizeof(DeviceReader));
  ends_ = CudaMemory::OnDevice(device_.driver(), device_.context(), image.size());
  for (std::size_t f = 0; f < fills.size(); ++f) {
    fills[f].readers = reinterpret_cast<const DeviceReader*>(ends_.data() + readers_at) + first[f];
  }
  std::memcpy(image.data(), empties.data(), fills_at_);
  std::memcpy(image.data() + fills_at_, fills.data(), readers_at - fills_at_);
  std::memcpy(image.data() + readers_at, readers.data(), image.size() - readers_at);
  SideStream(device_.driver(), device_.context()).Copy(ends_.data(), image.data(), image.size());
}

}  // namespace tutti::cuda_transport
