// Shared memory between the ranks of one host: every rank's segment mapped by every other, and the rings in them.
//
// Thread-safety: getters may be called from any thread; each ring end belongs to whoever drives its channel.
#pragma once

#include <memory>
#include <vector>

#include "base/deadline.h"
#include "base/settings.h"
#include "transports/descriptor_exchange.h"
#include "transports/layout.h"
#include "transports/ring.h"
#include "transports/segment.h"

namespace tutti {

class ShmFabric {
 public:
  // Collective. Throws tuttiInvalidUsage if a rank is on another host, tuttiTimeoutError, tuttiSystemError.
  ShmFabric(int rank, int nranks, int channels, const Settings& settings, const AllGather& all_gather,
            Deadline deadline);

  int rank() const { return rank_; }
  int nranks() const { return layout_.nranks(); }
  const Layout& layout() const { return layout_; }

  // This rank's end of the connection to / from `peer`, and of the posts it writes / `writer` writes.
  FillEnd& To(int channel, Wire wire, int peer) { return fills_[FillIndex(channel, wire, peer)]; }
  FillEnd& Post(int channel, Wire wire) { return fills_[FillIndex(channel, wire, nranks())]; }
  EmptyEnd& From(int channel, Wire wire, int peer) { return empties_[EmptyIndex(channel, wire, peer, false)]; }
  EmptyEnd& PostOf(int channel, Wire wire, int writer) { return empties_[EmptyIndex(channel, wire, writer, true)]; }

  ControlBlock& control(int rank) const { return *reinterpret_cast<ControlBlock*>(peers_[rank].segment.data()); }
  // How many ranks of the host are asleep, or about to be; in one place so that whoever publishes looks at one line.
  std::atomic<std::uint32_t>& sleepers() const { return control(0).sleepers; }

  pid_t pid(int rank) const { return peers_[rank].pid; }
  // Readable once the process has ended; -1 for this rank's own process and where pidfds do not exist.
  int pidfd(int rank) const { return peers_[rank].pidfd.get(); }
  bool same_process(int rank) const { return peers_[rank].same_process; }
  bool all_same_process() const { return all_same_process_; }
  // Every rank may read every other rank's memory with process_vm_readv.
  bool cma() const { return cma_; }

 private:
  struct Peer {
    Segment segment;
    FileDescriptor pidfd;
    pid_t pid = 0;
    bool same_process = false;
  };

  std::size_t FillIndex(int channel, Wire wire, int peer) const {
    return (static_cast<std::size_t>(channel) * kWires + static_cast<std::size_t>(wire)) * (nranks() + 1) + peer;
  }
  std::size_t EmptyIndex(int channel, Wire wire, int peer, bool post) const {
    return ((static_cast<std::size_t>(channel) * kWires + static_cast<std::size_t>(wire)) * 2 + post) * nranks() + peer;
  }
  void MakeRings();
  std::atomic<std::uint32_t>* Head(int reader, int channel, Wire wire, int writer, bool post) const;

  int rank_;
  Layout layout_;
  std::vector<Peer> peers_;
  std::vector<FillEnd> fills_;
  std::vector<EmptyEnd> empties_;
  bool all_same_process_ = true;
  bool cma_ = false;
};

}  // namespace tutti
