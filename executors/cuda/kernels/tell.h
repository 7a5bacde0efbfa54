// A kernel's reports to the host, in pinned memory (DeviceProgress).
//
// Thread-safety: called by one thread of a block; blocks may report at the same time.
#pragma once

#include "executors/cuda/kernels/device.h"
#include "executors/cuda/kernels/device_plan.h"

namespace tutti::cuda_kernels {

// An operation first takes a ticket and reports once it has arrived; the block prepares in between.
struct CallTicket {
  DeviceProgress* progress;
  std::uint64_t index;
};

// All queues of a rank share one numbering of calls.
TUTTI_DEVICE CallTicket TakeTicket(DeviceRank& rank) {
  DeviceProgress* const progress = rank.progress;
  return {progress, FetchAdd(&rank.calls, 1) + 1};
}

// REQUIRES: call.index is the ticket's.
TUTTI_DEVICE void Report(const CallTicket& ticket, const DeviceCall& call) {
  DeviceCall& entry = ticket.progress->calls[call.index % kProgressEntries];
  StoreRelaxed(&entry.index, call.index);
  StoreRelaxed(&entry.sequence, call.sequence);
  StoreRelaxed(&entry.digest, call.digest);
  StoreRelaxed(&entry.signature, call.signature);
  StoreRelaxed(&entry.call, call.call);
  StoreRelaxed(&entry.count, call.count);
  StoreRelaxed(&entry.site, call.site);
  StoreRelaxed(&entry.check, CheckOf(call));
}

// Reports to the recorder and the watchdog that an operation begins.
TUTTI_DEVICE void TellBegun(const CallTicket& ticket, const DevicePlan& plan, std::uint64_t place,
                            std::uint64_t sequence, std::uint64_t digest, std::uint32_t site) {
  DeviceCall call{};
  call.index = ticket.index;
  call.sequence = sequence;
  call.digest = digest;
  call.signature = plan.signature ^ place;
  call.call = plan.call;
  call.count = plan.count;
  call.site = site;
  Report(ticket, call);
}

// Reports that a peer deviated from the protocol and stops all blocks of this rank. Writes the kind last. Returns
// false, for callers to return.
TUTTI_DEVICE bool TellFault(DeviceRank& rank, DeviceFaultKind kind, std::int32_t peer, std::uint64_t expected,
                            std::uint64_t got) {
  auto& progress = *rank.progress;
  std::uint32_t none = 0;
  if (!GpuAtomic<std::uint32_t>(rank.stop).compare_exchange_strong(none, 1, kRelaxed)) return false;
  StoreRelaxed(&progress.fault_peer, peer);
  StoreRelaxed(&progress.fault_expected, expected);
  StoreRelaxed(&progress.fault_got, got);
  StoreRelease(&progress.fault_kind, static_cast<std::uint32_t>(kind), true);
  return false;
}

}  // namespace tutti::cuda_kernels
