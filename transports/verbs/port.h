// One RDMA port that this process has opened: its device, the protection domain that memory is registered with, and the
// one queue for completions of all work on it.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/settings/settings.h"
#include "transports/verbs/library.h"
#include "transports/verbs/ports.h"

namespace tutti::verbs {

// An event that a device reports by itself.
struct VerbsEvent {
  const ibv_qp* pair = nullptr;  // the affected pair; null: every user of the device
  bool fatal = false;            // nothing more can be sent or received
  std::string text;
};

struct MemoryRange {
  const std::byte* begin;
  std::size_t bytes;
  int file = -1;             // memory of a GPU: its dma-buf
  std::uint64_t offset = 0;  // where it begins there
};

class VerbsPort {
 public:
  // `gid`: which of port.gids. Throws tuttiSystemError.
  VerbsPort(std::shared_ptr<ibv_context> device, PortFacts port, std::size_t gid, const ibv_port_attr& attributes);
  ~VerbsPort();
  VerbsPort(const VerbsPort&) = delete;
  VerbsPort& operator=(const VerbsPort&) = delete;

  const PortFacts& port() const { return port_; }
  std::string name() const { return port_.Name(); }
  const GidFacts& gid() const { return port_.gids[gid_]; }
  std::uint16_t lid() const { return lid_; }
  ibv_mtu mtu() const { return mtu_; }
  int most_requests() const { return limits_.max_qp_wr; }  // of one direction of a queue pair
  ibv_pd* domain() const { return domain_.get(); }
  ibv_cq* queue() const { return queue_.get(); }

  // Lets the device reach this memory from now on, and peers write to it if `remote`. Throws tuttiSystemError saying
  // what to do.
  MemoryRegion Register(const MemoryRange& range, bool remote) const;
  // Makes room in the queue for `count` more completions. Throws tuttiSystemError.
  void AddCompletions(unsigned count);

  // The completions that have arrived, at most out.size().
  std::span<ibv_wc> Poll(std::span<ibv_wc> out);
  // False: the queue is broken.
  bool polls() const { return polls_; }
  // The next completion will make descriptor() readable. Earlier ones do not, so the caller has to look for those
  // afterwards.
  void Arm();
  int descriptor() const { return channel_->fd; }
  // Readable when NextEvent() has an event.
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
  unsigned heard_ = 0;     // events of descriptor() not acknowledged yet, because that takes a lock
  bool armed_ = false;
  bool polls_ = true;
};

// The ports that the settings choose, ready to be used; at least one. `nics`: see ChoosePorts. Throws tuttiSystemError,
// tuttiInvalidUsage or tuttiInvalidArgument saying what is missing and what to do.
std::vector<std::unique_ptr<VerbsPort>> OpenRails(const Settings& settings, const std::vector<std::string>& nics = {});

}  // namespace tutti::verbs
