// One RDMA port that this process has opened: its device, what memory is registered with (a protection domain), and the
// one queue on which the completions of all work on it arrive.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/settings.h"
#include "transports/verbs/library.h"
#include "transports/verbs/ports.h"

namespace tutti {

// Something that a device tells of its own accord.
struct VerbsEvent {
  const ibv_qp* pair = nullptr;  // whom it is about; null: every user of the device
  bool fatal = false;            // nothing more will come, nor go
  std::string text;
};

class VerbsRail {
 public:
  // `gid`: which of port.gids. Throws tuttiSystemError.
  VerbsRail(std::shared_ptr<ibv_context> device, PortFacts port, std::size_t gid, const ibv_port_attr& attributes);
  ~VerbsRail();
  VerbsRail(const VerbsRail&) = delete;
  VerbsRail& operator=(const VerbsRail&) = delete;

  const PortFacts& port() const { return port_; }
  std::string name() const { return port_.Name(); }
  const GidFacts& gid() const { return port_.gids[gid_]; }
  std::uint16_t lid() const { return lid_; }
  ibv_mtu mtu() const { return mtu_; }
  int most_requests() const { return limits_.max_qp_wr; }  // of one direction of a queue pair
  ibv_pd* domain() const { return domain_.get(); }
  ibv_cq* queue() const { return queue_.get(); }

  // The device may reach this memory from now on, and peers may write to it if `remote`. Throws tuttiSystemError saying
  // what to do. GPU memory would come here, by a dma-buf's descriptor instead of an address (ibv_reg_dmabuf_mr).
  MemoryRegion Register(const std::byte* begin, std::size_t bytes, bool remote) const;
  // The queue has room for so many more completions. Throws tuttiSystemError.
  void AddCompletions(unsigned count);

  // The completions that have come, at most out.size().
  std::span<ibv_wc> Poll(std::span<ibv_wc> out);
  // False: the queue is broken.
  bool polls() const { return polls_; }
  // The next completion will make descriptor() readable; but for those that have come before, which the caller has to
  // look for afterwards.
  void Arm();
  int descriptor() const { return channel_->fd; }
  // Readable when NextEvent() has something to tell.
  int event_descriptor() const { return device_->async_fd; }
  std::optional<VerbsEvent> NextEvent();

 private:
  std::shared_ptr<ibv_context> device_;
  PortFacts port_;
  std::size_t gid_;
  std::uint16_t lid_;
  ibv_mtu mtu_;
  ibv_device_attr limits_{};
  ProtectionDomain domain_;
  CompletionChannel channel_;
  CompletionQueue queue_;
  unsigned promised_ = 0;  // completions that the queue has room for
  unsigned heard_ = 0;     // of descriptor()'s news, not acknowledged yet: that takes a lock
  bool armed_ = false;
  bool polls_ = true;
};

// The ports that the settings choose, ready to be used; at least one. Throws tuttiSystemError, tuttiInvalidUsage or
// tuttiInvalidArgument saying what is missing and what to do.
std::vector<std::unique_ptr<VerbsRail>> OpenRails(const Settings& settings);

}  // namespace tutti
