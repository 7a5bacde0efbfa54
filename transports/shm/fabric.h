// The connections of a rank as rings of slots in memory, wherever the peer is.
//
// On one host every rank's segment is mapped by every other, and both sides look at the same rings. A *shadow segment*
// stands for a rank of another host: private memory laid out like that rank's segment. A network engine (network.h)
// keeps it up to date: it takes what this rank fills for the peer, and fills in what the peer has filled for this rank.
// So the user of a ring need not know where its peer is.
//
// Thread-safety: getters may be called from any thread; each ring end belongs to the thread that drives its channel.
#pragma once

#include <memory>
#include <vector>

#include "base/clocks/deadline.h"
#include "base/file_descriptor.h"
#include "base/settings/settings.h"
#include "transports/ring/layout.h"
#include "transports/ring/ring.h"
#include "transports/shm/descriptors/descriptor_exchange.h"
#include "transports/shm/segment.h"

namespace tutti::shm {

class Fabric {
 public:
  // Collective. Throws tuttiTimeoutError, tuttiSystemError, and what ExchangeDescriptors throws.
  Fabric(int rank, Hosts hosts, int channels, const Settings& settings, const AllGather& all_gather, Deadline deadline);

  // The data of successive bulk slots that this rank fills for the ranks of its host change places over `bytes` in all,
  // of those for one rank each over an even part. So do those of posts. REQUIRES: no slot was filled yet; all ranks of
  // the host do likewise.
  void SpreadSlots(std::size_t bytes);

  int rank() const { return rank_; }
  int nranks() const { return layout_.nranks(); }
  // The layout of the segments of this host's ranks.
  const ring::Layout& layout() const { return layout_; }
  // The layout of that rank's segment, or shadow segment.
  const ring::Layout& layout(int rank) const { return is_local(rank) ? layout_ : shadow_layout_; }
  const Hosts& hosts() const { return locality_.hosts; }
  const Locality& locality() const { return locality_; }
  // This rank and those that share memory with it, ascending.
  const std::vector<int>& local() const { return local_; }
  bool is_local(int rank) const { return locality_.hosts.SameHost(rank, rank_); }

  // This rank's end of the connection to / from `peer`, and of the posts it writes / `writer` writes.
  ring::FillEnd& To(int channel, ring::Protocol protocol, int peer) {
    return fills_[FillIndex(channel, protocol, peer)];
  }
  ring::FillEnd& Post(int channel, ring::Protocol protocol) { return fills_[FillIndex(channel, protocol, nranks())]; }
  ring::EmptyEnd& From(int channel, ring::Protocol protocol, int peer) {
    return empties_[EmptyIndex(channel, protocol, peer, false)];
  }
  ring::EmptyEnd& PostOf(int channel, ring::Protocol protocol, int writer) {
    return empties_[EmptyIndex(channel, protocol, writer, true)];
  }

  // A rank's segment, or its shadow segment.
  std::byte* segment(int rank) const { return peers_[static_cast<std::size_t>(rank)].segment.data(); }
  // Its owners keep it mapped.
  const std::shared_ptr<Mapping>& mapping(int rank) const {
    return peers_[static_cast<std::size_t>(rank)].segment.mapping();
  }
  ring::ControlBlock& control(int rank) const { return *reinterpret_cast<ring::ControlBlock*>(segment(rank)); }
  // How many ranks of the host sleep, or are about to; in one place, so that a publisher reads a single line.
  std::atomic<std::uint32_t>& sleepers() const { return control(local_.front()).sleepers; }

  pid_t pid(int rank) const { return peers_[static_cast<std::size_t>(rank)].pid; }
  // Readable once the process has ended; -1 for this rank's own process, for ranks of other hosts, and where pidfds do
  // not exist.
  int pidfd(int rank) const {
    const auto& peer = peers_[static_cast<std::size_t>(rank)];
    return peer.pidfd == nullptr ? -1 : peer.pidfd->get();
  }
  // The end of a pair of sockets that wakes a local rank that sleeps on sockets; -1 where ranks sleep on futexes. Peers
  // share it: a call on it must say that it does not wait.
  int bell(int rank) const {
    const auto& peer = peers_[static_cast<std::size_t>(rank)];
    return peer.bell == nullptr ? -1 : peer.bell->get();
  }
  // The other end of this rank's pair. No other process has it.
  int hearing() const { return hearing_.get(); }
  // Proven: the rank was found in this process's own register. True also for ranks of different hosts, if these are
  // virtual or one process has ranks of both.
  bool same_process(int rank) const { return locality_.SameProcess(rank, rank_); }
  // All local ranks.
  bool all_same_process() const { return all_same_process_; }
  // Every rank may read every other local rank's memory with process_vm_readv, and some are in several processes.
  bool cma() const { return cma_; }
  // Some rank asks that it be done wherever it can be (TUTTI_CMA=on).
  bool cma_forced() const { return cma_ && cma_forced_; }
  // Copies from the memory of a local rank in another process. False if the kernel refuses or the process is gone, even
  // if another process has since got its number and was copied from.
  bool ReadMemory(int rank, std::uint64_t address, void* destination, std::size_t bytes) const;

 private:
  struct Peer {
    Segment segment;
    std::shared_ptr<const FileDescriptor> pidfd;
    std::shared_ptr<const FileDescriptor> bell;  // shared with the rank itself, if it is of this process
    pid_t pid = 0;
  };

  std::size_t FillIndex(int channel, ring::Protocol protocol, int peer) const {
    return (static_cast<std::size_t>(channel) * ring::kProtocols + static_cast<std::size_t>(protocol)) *
               (nranks() + 1) +
           peer;
  }
  std::size_t EmptyIndex(int channel, ring::Protocol protocol, int peer, bool post) const {
    return ((static_cast<std::size_t>(channel) * ring::kProtocols + static_cast<std::size_t>(protocol)) * 2 + post) *
               nranks() +
           peer;
  }
  void MakeRings();
  std::atomic<std::uint32_t>* Head(int reader, int channel, ring::Protocol protocol, int writer, bool post) const;
  std::atomic<std::uint32_t>* RecallWord(int reader, int channel, int writer) const;

  struct Lent;  // what this rank lends to ranks of the same process
  struct Introduction;
  void PlaceRings(const std::vector<Introduction>& all);
  void FindThisProcess(const std::vector<Introduction>& all, const AllGather& all_gather);
  bool NumberIsAnothers(const std::vector<Introduction>& all, int rank) const;
  bool TakePeer(int rank, const Introduction& theirs, std::vector<FileDescriptor> descriptors, bool probe);

  int rank_;
  FileDescriptor hearing_;
  Locality locality_;
  std::vector<int> local_;
  ring::Layout layout_;
  ring::Layout shadow_layout_;  // differs in the depth of inline rings only
  std::vector<Peer> peers_;
  std::vector<ring::FillEnd> fills_;
  std::vector<ring::EmptyEnd> empties_;
  bool all_same_process_ = true;
  bool cma_ = false;
  bool cma_forced_ = false;
};

}  // namespace tutti::shm
