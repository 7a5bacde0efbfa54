// How the GPUs of ranks reach each other: every rank lends a piece of its GPU's memory, which the others of its host
// use directly - the same GPU, peer access in one process, CUDA IPC between processes. Two GPUs of a host that cannot
// reach each other meet in its pinned memory; those of different hosts have rings in pinned memory of both
// (pinned_rings.h).
//
// Thread-safety: getters may be called from any thread. The rings' ends are on the GPU.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/all_gather.h"
#include "transports/cuda/cuda_device.h"
#include "transports/cuda/layout.h"
#include "transports/cuda/memory/lent_memory.h"
#include "transports/cuda/memory/team_memory.h"
#include "transports/cuda/pinned_rings.h"
#include "transports/cuda/resources.h"
#include "transports/cuda/ring.h"
#include "transports/shm/fabric.h"

namespace tutti::cuda_transport {

class DeviceFabric {
 public:
  // Whether a switch that adds between the GPUs of each host is wanted: by this rank, for so many channels; and why none is of
  // use ("": it is), the same on all ranks.
  struct TeamWish {
    bool wanted;
    int channels;
    std::string why_useless;
  };

  // Collective. `shm` connects the same ranks; it and `device` outlive this. Throws tuttiUnhandledCudaError.
  // `channels`: for collectives; those for messages follow. `p2p`: this rank's GPU and others may use each other's memory,
  // if they can. `with`: the same on all ranks; lines of 128 bytes are used only if all ranks of a host reach each other. `across`: where
  // the rings between hosts lie. `count_from`: what the counts of slots between GPUs of one host begin at, modulo 2^32; the same on all ranks.
  DeviceFabric(const CudaDevice& device, int channels, const shm::Fabric& shm, bool p2p, DeviceLayout::Short with,
               const TeamWish& team, const PinnedRings::Place& across, std::uint32_t count_from,
               const AllGather& all_gather, Deadline deadline);

  // Keeps the memory that peers and kernels use alive for the rest of this process.
  void Abandon();

  // Gives back what memory it can, and takes it again at the same addresses and with the same contents, but for the data of
  // bulk slots. Collective, both; the reason why a rank failed, the same on all ranks, and then nothing has changed.
  // REQUIRES: no rank's kernels run.
  std::string GiveBack(const AllGather& all_gather);
  std::string TakeAgain(const AllGather& all_gather, Deadline deadline);
  // Bytes of the GPU's memory that GiveBack() gives back, and others that belong to this.
  std::size_t returnable_bytes() const { return memory_->can_give_back() ? memory_->bytes() : 0; }
  std::size_t other_bytes() const;

  int rank() const { return rank_; }
  const DeviceLayout& layout() const { return layout_; }
  // Ranks of this process on this GPU.
  const std::vector<int>& fused() const { return fused_; }
  // All data stays on one GPU.
  bool one_device() const { return one_device_; }
  bool one_process() const { return one_process_; }
  // Every rank's GPU can read every other's memory.
  bool all_reach() const { return all_reach_; }
  // The same of the ranks of each host.
  bool hosts_reach() const { return hosts_reach_; }
  // Ranks that a post reaches: this host's, except this rank.
  int readers_of_posts() const { return static_cast<int>(shm_.local().size()) - 1; }
  bool by_network(int peer) const { return !shm_.is_local(peer); }
  // Rings to GPUs of other hosts; null where there are none.
  PinnedRings* across() { return across_.get(); }
  // Data bytes of a chunk of packets, or of lines of 128 bytes; 0: there are none. With several hosts it fits bulk slots, too.
  std::size_t line_capacity() const { return std::min(layout_.line_capacity(), bulk_capacity()); }
  std::size_t line128_capacity() const {
    return hosts_reach_ ? std::min(layout_.line128_capacity(), bulk_capacity()) : 0;
  }
  // Data bytes of any bulk slot of a collective.
  std::size_t bulk_capacity() const { return across_ ? across_->capacity() : layout_.bulk_capacity(); }
  // Data bytes of a slot that carries a message between this rank and `peer`; 0: there is none.
  std::size_t message_capacity(ring::Protocol protocol, int peer) const;
  // The channels that a message between them may take.
  int message_channels(int peer) const {
    return by_network(peer) ? kFewestMessageChannels : layout_.message_channels();
  }

  // Whether a switch adds and multiplies data of each host's ranks, and the data bytes of its slots.
  bool has_team() const { return team_ != nullptr; }
  std::size_t team_capacity() const { return team_layout_.stride(); }
  int team_channels() const { return team_channels_; }  // that have them

  // This rank's ends, in its GPU's memory, and indices into them: of `peer`'s rings and posts, and of this rank's post.
  DeviceFillEnd* fills() const { return reinterpret_cast<DeviceFillEnd*>(ends_.data() + fills_at_); }
  DeviceEmptyEnd* empties() const { return reinterpret_cast<DeviceEmptyEnd*>(ends_.data()); }
  const DeviceReader* readers() const { return reinterpret_cast<const DeviceReader*>(ends_.data() + readers_at_); }
  // Those of a fill end, among readers().
  struct ReaderRange {
    std::uint32_t first, count;
  };
  ReaderRange ReadersOf(std::uint32_t fill) const { return readers_of_[fill]; }
  std::uint32_t To(int channel, ring::Protocol protocol, int peer) const {
    return IsExtra(channel) ? ExtraIndex(channel, protocol, peer) + FillIndex(channels_, ring::Protocol::line, 0)
                            : FillIndex(channel, protocol, peer);
  }
  std::uint32_t Post(int channel, ring::Protocol protocol) const { return FillIndex(channel, protocol, nranks_); }
  std::uint32_t From(int channel, ring::Protocol protocol, int peer) const {
    return IsExtra(channel)
               ? ExtraIndex(channel, protocol, peer) + EmptyIndex(channels_, ring::Protocol::line, 0, false)
               : EmptyIndex(channel, protocol, peer, false);
  }
  std::uint32_t PostOf(int channel, ring::Protocol protocol, int peer) const {
    return EmptyIndex(channel, protocol, peer, true);
  }
  // Where `writer` counts the signals that it has sent to `reader`; one of the two is this rank. As our GPU reaches it; null
  // if `by_network`.
  std::uint64_t* Signals(int writer, int reader) const;

  // What a switch adds and multiplies (schedule.h). REQUIRES: has_team(); a channel for collectives.
  std::uint32_t ContributionTo(int channel, int reader) const { return TeamFillIndex(channel, reader); }
  std::uint32_t Multicast(int channel) const { return TeamFillIndex(channel, nranks_); }
  std::uint32_t ContributionOf(int channel, int writer) const { return TeamEmptyIndex(channel, writer, false); }
  std::uint32_t MulticastOf(int channel, int writer) const { return TeamEmptyIndex(channel, writer, true); }

 private:
  struct Peer {
    std::unique_ptr<CudaDevice> gpu;      // another one in this process
    std::shared_ptr<LentMemory> shared;   // of a rank of this process: stays while any rank uses it
    std::size_t by_descriptor = 0;        // bytes that another process gives by a descriptor
    BorrowedMemory borrowed;              // these
    OpenedMemory opened;                  // what another process gives by a handle
    std::shared_ptr<PinnedSegment> host;  // its pinned memory, where that is needed
    std::byte* device = nullptr;          // its memory, as our GPU reaches it; null if it does not
    std::byte* pinned = nullptr;          // likewise
  };
  struct Introduction;

  std::uint32_t FillIndex(int channel, ring::Protocol protocol, int peer) const {
    return static_cast<std::uint32_t>((channel * ring::kProtocols + static_cast<int>(protocol)) * (nranks_ + 1) + peer);
  }
  std::uint32_t EmptyIndex(int channel, ring::Protocol protocol, int peer, bool post) const {
    const int row = (channel * ring::kProtocols + static_cast<int>(protocol)) * 2 + post;
    return static_cast<std::uint32_t>(row * nranks_ + peer);
  }
  // Channels for messages beyond those between hosts join ranks of one host alone, by bulk slots or lines. Their ends are
  // behind those of the other channels, by the peer's place, so that ranks of other hosts take no room.
  bool IsExtra(int channel) const { return channel >= channels_; }
  std::uint32_t ExtraIndex(int channel, ring::Protocol protocol, int peer) const {
    const int row = 2 * (channel - channels_) + (protocol == ring::Protocol::inlined);
    return static_cast<std::uint32_t>(row * layout_.nranks() + Place(peer));
  }
  std::uint32_t ExtraEnds() const {
    const int extra = layout_.channels() + layout_.message_channels() - channels_;
    return static_cast<std::uint32_t>(2 * extra * layout_.nranks());
  }
  // Behind all of those.
  std::uint32_t TeamFillIndex(int channel, int reader) const {
    return FillIndex(channels_, ring::Protocol::line, 0) + ExtraEnds() +
           static_cast<std::uint32_t>(channel * (nranks_ + 1) + reader);
  }
  std::uint32_t TeamEmptyIndex(int channel, int writer, bool multicast) const {
    return EmptyIndex(channels_, ring::Protocol::line, 0, false) + ExtraEnds() +
           static_cast<std::uint32_t>((channel * 2 + multicast) * nranks_ + writer);
  }
  // Collective: maps what other processes give by descriptors. Why some failed; "": none.
  std::string MapBorrowed(const AllGather& all_gather, Deadline deadline);
  void ReachPeers(const std::vector<Introduction>& all, bool p2p);
  void CompareReach(const AllGather& all_gather);
  void MeetInHostMemory(std::uint32_t count_from, const AllGather& all_gather, Deadline deadline);
  struct Ends;
  void MakeEnds(std::uint32_t count_from);
  bool HasSlots(int channel, ring::Protocol protocol) const;
  void AddTeamEnds(Ends& ends, std::uint32_t count_from) const;
  // A rank of this host as the layout knows it.
  int Place(int rank) const { return places_[static_cast<std::size_t>(rank)]; }
  // `owner`'s memory that it shares with `other` (one of the two is this rank), as our GPU reaches it.
  std::byte* Shared(int owner, int other) const;

  const CudaDevice& device_;
  const shm::Fabric& shm_;
  int rank_, nranks_;
  std::vector<int> places_;
  DeviceLayout layout_;
  int channels_;  // that may join any two ranks: the collectives', and the first ones for messages
  std::shared_ptr<PinnedRings> across_;  // null on one host
  TeamLayout team_layout_;
  int team_channels_ = 0;  // 0: no team
  std::unique_ptr<TeamMemory> team_;
  std::shared_ptr<LentMemory> memory_;
  std::vector<std::byte> kept_;  // its contents while it is given back
  CudaMemory ends_;
  std::size_t fills_at_ = 0, readers_at_ = 0;
  std::vector<ReaderRange> readers_of_;  // by fill end
  std::vector<Peer> peers_;
  std::vector<std::vector<bool>> reach_;  // [from][to], symmetric; true also between hosts, which do not meet at all
  std::vector<int> fused_;
  bool one_device_ = true, one_process_ = true, all_reach_ = true, hosts_reach_ = true;
};

}  // namespace tutti::cuda_transport
