#include "transports/cuda/fabric.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/all_gather.h"
#include "base/error.h"
#include "base/fork_safe_mutex.h"
#include "base/log.h"
#include "base/threads/made_once.h"
#include "transports/shm/process_register.h"
#include "transports/shm/shared_segments.h"

namespace tutti::cuda_transport {

// A rank's description of itself.
struct DeviceFabric::Introduction {
  CuUuid uuid;
  std::int32_t ordinal;
  shm::RegisterKey memory;      // its memory_, for ranks of the same process
  CuIpcHandle handle;           // for the others, as is
  std::uint64_t by_descriptor;  // its bytes, if they get it by a descriptor instead
};

void DeviceFabric::Abandon() {
  struct Abandoned {
    ForkSafeMutex mutex;
    std::vector<std::shared_ptr<const void>> memory;
  };
  static constinit MadeOnce<Abandoned> all;
  const std::lock_guard lock(all.Get().mutex);
  all.Get().memory.push_back(memory_);
  all.Get().memory.push_back(across_);
  if (team_ != nullptr) TeamMemory::Abandon(std::move(team_));
}

DeviceFabric::DeviceFabric(const CudaDevice& device, int channels, const shm::Fabric& shm, bool p2p,
                           DeviceLayout::Short with, const TeamWish& team, const PinnedRings::Place& across,
                           std::uint32_t count_from, const AllGather& all_gather, Deadline deadline)
    : device_(device),
      shm_(shm),
      rank_(shm.rank()),
      nranks_(shm.nranks()),
      places_(shm.hosts().Places()),
      layout_(shm.hosts().MostRanks(), channels, with),
      channels_(channels + kFewestMessageChannels),
      team_layout_(layout_.nranks(), team.channels),
      memory_(std::make_shared<LentMemory>(device.driver(), device.context(), layout_.bytes())),
      peers_(static_cast<std::size_t>(nranks_)) {
  SideStream side(device.driver(), device.context());
  side.Zero(memory_->data(), layout_.zeroed_bytes());
  if (const std::size_t lines = layout_.may_hold_lines_at(); lines < layout_.bytes()) {
    side.Zero(memory_->data() + lines, layout_.bytes() - lines);
  }
  if (count_from != 0) {
    const std::vector<std::uint32_t> heads(layout_.head_bytes() / sizeof(std::uint32_t), count_from);
    side.Copy(memory_->data(), heads.data(), layout_.head_bytes());
  }
  const shm::Offer offer(rank_, memory_);
  Introduction mine{device.uuid(), device.ordinal(), offer.key(), {}, 0};
  if (memory_->can_give_back()) {
    mine.by_descriptor = memory_->bytes();
  } else {
    mine.handle = memory_->Handle();  // if it is void, peers in other processes meet this rank in host memory
  }
  const auto all = GatherValues(all_gather, mine);
  for (const int r : shm.local()) {
    const auto rank = static_cast<std::size_t>(r);
    if (p2p && !shm.same_process(r)) peers_[rank].by_descriptor = all[rank].by_descriptor;
  }
  MapBorrowed(all_gather, deadline);
  for (auto& peer : peers_) {
    if (peer.borrowed.data() == nullptr) peer.by_descriptor = 0;
  }
  ReachPeers(all, p2p);
  CompareReach(all_gather);
  const bool all_meet = std::ranges::all_of(
      reach_, [](const auto& row) { return std::ranges::all_of(row, [](bool reaches) { return reaches; }); });
  if (!all_meet) MeetInHostMemory(count_from, all_gather, deadline);
  if (shm.hosts().count() > 1) {
    across_ = std::make_shared<PinnedRings>(device, shm, channels_, layout_.bulk_capacity(), across);
  }
  hosts_reach_ = all_meet;
  all_reach_ = all_meet && across_ == nullptr;
  one_device_ = one_device_ && all_meet;
  std::string no_team = all_meet ? team.why_useless : "not all of a host reach each other";
  if (no_team.empty()) {
    team_ = TeamMemory::Make(device, shm, team_layout_.bytes(), team.wanted && p2p, all_gather, deadline, &no_team);
  }
  team_channels_ = team_ != nullptr ? team.channels : 0;
  MakeEnds(count_from);
  all_gather({});  // no rank's kernel begins before every rank's memory is zeroed and reached
  Log(Subject::init, "rank {}: {}{}", rank_, team_ != nullptr ? "a switch adds" : "no switch adds between the GPUs: ",
      team_ != nullptr ? " between the GPUs of each host" : no_team);
  Log(Subject::init, "rank {}: device {}, {} B of its memory lent to peers, {} ranks share a launch{}", rank_,
      device.ordinal(), layout_.bytes(), fused_.size(),
      all_meet ? "" : "; some pairs of devices exchange data through host memory");
}

// Compares which ranks of a host reach each other. If one rank of a pair cannot reach the other, neither does.
void DeviceFabric::CompareReach(const AllGather& all_gather) {
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
        peer.shared = r == rank_ ? memory_ : shm::FindOffer<LentMemory>(theirs.memory, r);
        if (peer.shared == nullptr)
          Throw(tuttiRemoteError, "rank {} of this process left while the ranks connected their GPUs", r);
        peer.device = peer.shared->data();
      }
      continue;
    }
    if (theirs.by_descriptor != 0) {
      peer.device = peer.borrowed.data();
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
void DeviceFabric::MeetInHostMemory(std::uint32_t count_from, const AllGather& all_gather, Deadline deadline) {
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

std::uint64_t* DeviceFabric::Signals(int writer, int reader) const {
  if (by_network(writer) || by_network(reader)) return nullptr;
  const int other = reader == rank_ ? writer : rank_;
  return reinterpret_cast<std::uint64_t*>(Shared(reader, other) + layout_.Signals(Place(writer)));
}

namespace {

struct DeviceRing {
  std::uint32_t stride, depth;
};
DeviceRing ShapeOf(int channel, ring::Protocol protocol, const DeviceLayout& layout) {
  if (layout.IsForMessages(channel) && protocol != ring::Protocol::line) {
    return {static_cast<std::uint32_t>(layout.message_stride()), kDeviceMessageDepth};
  }
  switch (protocol) {
    case ring::Protocol::line: return {static_cast<std::uint32_t>(layout.line_stride()), kDeviceLineDepth};
    case ring::Protocol::inlined: return {static_cast<std::uint32_t>(layout.line128_stride()), kDeviceLine128Depth};
    default: return {static_cast<std::uint32_t>(layout.bulk_stride()), kDeviceBulkDepth};
  }
}

}  // namespace

// The ends under construction. The readers of fill end f are readers[first[f]], ...; their address is known only when
// all have been found.
struct DeviceFabric::Ends {
  std::vector<DeviceEmptyEnd> empties;
  std::vector<DeviceFillEnd> fills;
  std::vector<DeviceReader> readers;
  std::vector<std::size_t> first;
};

// Contributions lie in the filler's memory, and their reader reads them by the address that means all ranks' memory; a
// multicast is written by that address, and lies in the reader's memory.
void DeviceFabric::AddTeamEnds(Ends& ends, std::uint32_t count_from) const {
  const auto stride = static_cast<std::uint32_t>(team_layout_.stride());
  const auto head = [&](int channel, int writer, int reader, bool multicast) {
    std::byte* const memory = Shared(writer, writer == rank_ ? reader : rank_);
    return reinterpret_cast<std::uint32_t*>(memory + layout_.TeamHead(channel, Place(reader), multicast));
  };
  const auto begin_fill = [&](std::uint32_t index, std::byte* data) {
    ends.first[index] = ends.readers.size();
    ends.fills[index].data = data;
    ends.fills[index].stride = stride;
    ends.fills[index].header_stride = sizeof(DeviceSlotHeader);
    ends.fills[index].depth = kDeviceBulkDepth;
    ends.fills[index].tail = ends.fills[index].known_head = count_from;
  };
  const auto add_reader = [&](std::uint32_t index, int channel, int reader, bool multicast) {
    auto* const headers = Shared(reader, rank_) + layout_.TeamHeaders(channel, Place(rank_), multicast);
    ends.readers.push_back(
        {reinterpret_cast<DeviceSlotHeader*>(headers), nullptr, head(channel, rank_, reader, multicast)});
    ++ends.fills[index].reader_count;
  };
  const auto set_empty = [&](std::uint32_t index, int channel, int writer, bool multicast, const std::byte* data) {
    auto* const headers = Shared(rank_, writer) + layout_.TeamHeaders(channel, Place(writer), multicast);
    ends.empties[index] = {reinterpret_cast<const DeviceSlotHeader*>(headers),
                           nullptr,
                           data,
                           head(channel, writer, rank_, multicast),
                           stride,
                           sizeof(DeviceSlotHeader),
                           kDeviceBulkDepth,
                           count_from,
                           writer,
                           0};
  };
  for (int channel = 0; channel < team_channels_; ++channel) {
    begin_fill(Multicast(channel), team_->all() + team_layout_.Multicast(channel, Place(rank_)));
    for (const int peer : shm_.local()) {
      if (peer == rank_) continue;
      add_reader(Multicast(channel), channel, peer, true);
      set_empty(MulticastOf(channel, peer), channel, peer, true,
                team_->own() + team_layout_.Multicast(channel, Place(peer)));
    }
    for (const int peer : shm_.local()) {
      begin_fill(ContributionTo(channel, peer), team_->own() + team_layout_.Contribution(channel, Place(peer)));
      add_reader(ContributionTo(channel, peer), channel, peer, false);
      set_empty(ContributionOf(channel, peer), channel, peer, false,
                team_->all() + team_layout_.Contribution(channel, Place(rank_)));
    }
  }
}

std::size_t DeviceFabric::message_capacity(ring::Protocol protocol, int peer) const {
  if (!by_network(peer))
    return protocol == ring::Protocol::inlined && !hosts_reach_ ? 0 : layout_.message_capacity(protocol);
  return protocol == ring::Protocol::bulk ? across_->capacity() : 0;
}

// Between GPUs of one host.
bool DeviceFabric::HasSlots(int channel, ring::Protocol protocol) const {
  const bool first = channel <= layout_.channels();  // of those for messages, if it is one
  if (protocol == ring::Protocol::line) return layout_.line_capacity() > 0 && first;
  return protocol == ring::Protocol::bulk || line128_capacity() > 0;
}

void DeviceFabric::MakeEnds(std::uint32_t count_from) {
  Ends ends;
  auto& [empties, fills, readers, first] = ends;
  empties.resize(TeamEmptyIndex(team_channels_, 0, false));
  fills.resize(TeamFillIndex(team_channels_, 0));
  first.resize(fills.size());

  // A post's data lies in device memory if all ranks reach it there.
  const auto post_memory = [&](int writer) {
    const auto& row = reach_[static_cast<std::size_t>(writer)];
    const bool all = std::find(row.begin(), row.end(), false) == row.end();
    return all ? peers_[static_cast<std::size_t>(writer)].device : peers_[static_cast<std::size_t>(writer)].pinned;
  };
  // Where the slots lie that `writer` fills for `reader`: packets or lines, and the data of bulk slots.
  const auto slots_at = [&](int channel, int reader, int writer, ring::Protocol protocol, bool post) {
    if (protocol == ring::Protocol::line) return layout_.Packets(channel, Place(writer), post);
    if (layout_.IsForMessages(channel)) return layout_.MessageSlots(channel, Place(reader), Place(writer));
    return layout_.Lines128(channel, Place(writer), post);
  };
  const auto data_at = [&](int channel, int reader, int writer) {
    return layout_.IsForMessages(channel) ? layout_.MessageSlots(channel, Place(reader), Place(writer))
                                          : layout_.Data(channel, Place(writer));
  };
  const auto reader_of = [&](int channel, int reader, ring::Protocol protocol, bool post) {
    std::byte* const theirs = Shared(reader, rank_);
    return DeviceReader{
        reinterpret_cast<DeviceSlotHeader*>(theirs + layout_.Headers(channel, Place(rank_), post)),
        theirs + slots_at(channel, reader, rank_, protocol, post),
        reinterpret_cast<std::uint32_t*>(Shared(rank_, reader) + layout_.Head(channel, Place(reader), protocol, post))};
  };
  const auto begin_fill = [&](std::uint32_t index, int channel, ring::Protocol protocol, std::byte* data) {
    const auto shape = ShapeOf(channel, protocol, layout_);
    first[index] = readers.size();
    fills[index].data = data;
    fills[index].stride = shape.stride;
    fills[index].header_stride = sizeof(DeviceSlotHeader);
    fills[index].depth = shape.depth;
    fills[index].tail = fills[index].known_head = count_from;
  };

  for (int channel = 0; channel < layout_.channels() + layout_.message_channels(); ++channel) {
    const bool posts = !layout_.IsForMessages(channel) && across_ == nullptr;
    for (int p = 0; p < ring::kProtocols; ++p) {
      const auto protocol = static_cast<ring::Protocol>(p);
      if (!HasSlots(channel, protocol)) continue;
      for (int peer = 0; peer < nranks_; ++peer) {
        if (peer == rank_ || (by_network(peer) && (IsExtra(channel) || protocol != ring::Protocol::bulk))) continue;
        const auto to = To(channel, protocol, peer);
        if (by_network(peer)) {
          const auto ends = across_->EndsWith(channel, peer);
          first[to] = readers.size();
          fills[to] = ends.fill;
          readers.push_back(ends.reader);
          empties[From(channel, protocol, peer)] = ends.empty;
          continue;
        }
        begin_fill(to, channel, protocol, Shared(peer, rank_) + data_at(channel, peer, rank_));
        readers.push_back(reader_of(channel, peer, protocol, false));
        fills[to].reader_count = 1;
        for (const bool post : {false, true}) {
          if (post && !posts) continue;
          std::byte* const mine = Shared(rank_, peer);
          std::byte* const data =
              post ? post_memory(peer) + layout_.PostData(channel) : mine + data_at(channel, rank_, peer);
          empties[post ? PostOf(channel, protocol, peer) : From(channel, protocol, peer)] = {
              reinterpret_cast<const DeviceSlotHeader*>(mine + layout_.Headers(channel, Place(peer), post)),
              mine + slots_at(channel, rank_, peer, protocol, post),
              data,
              reinterpret_cast<std::uint32_t*>(Shared(peer, rank_) +
                                               layout_.Head(channel, Place(rank_), protocol, post)),
              fills[to].stride,
              fills[to].header_stride,
              fills[to].depth,
              count_from,
              peer,
              0};
        }
      }
      if (!posts) continue;
      const auto post = Post(channel, protocol);
      begin_fill(post, channel, protocol, post_memory(rank_) + layout_.PostData(channel));
      for (int peer = 0; peer < nranks_; ++peer) {
        if (peer != rank_) readers.push_back(reader_of(channel, peer, protocol, true));
      }
      fills[post].reader_count = static_cast<std::uint32_t>(readers_of_posts());
    }
  }

  AddTeamEnds(ends, count_from);
  fills_at_ = empties.size() * sizeof(DeviceEmptyEnd);
  readers_at_ = fills_at_ + fills.size() * sizeof(DeviceFillEnd);
  std::vector<std::byte> image(readers_at_ + readers.size() * sizeof(DeviceReader));
  ends_ = CudaMemory::OnDevice(device_.driver(), device_.context(), image.size());
  for (std::size_t f = 0; f < fills.size(); ++f) {
    readers_of_.push_back({static_cast<std::uint32_t>(first[f]), fills[f].reader_count});
    fills[f].readers = this->readers() + first[f];
  }
  std::memcpy(image.data(), empties.data(), fills_at_);
  std::memcpy(image.data() + fills_at_, fills.data(), readers_at_ - fills_at_);
  std::memcpy(image.data() + readers_at_, readers.data(), image.size() - readers_at_);
  SideStream(device_.driver(), device_.context()).Copy(ends_.data(), image.data(), image.size());
}

}  // namespace tutti::cuda_transport
