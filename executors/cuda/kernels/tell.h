// What a kernel tells the host, in pinned memory (DeviceProgress).
//
// Thread-safety: called by one thread of a block; blocks may tell at the same time.
#pragma once

#include "executors/cuda/kernels/device.h"
#include "executors/cuda/kernels/device_plan.h"

namespace tutti {

// An operation that begins takes a ticket first and tells when it has come: meanwhile the block gets ready.
struct CallTicket {
  DeviceProgress* progress;
  std::uint64_t index;
};

// Queues of one rank number their calls together.
TUTTI_DEVICE CallTicket TakeTicket(DeviceRank& rank) {
  DeviceProgress* const progress = rank.progress;
  return {progress, FetchAdd(&rank.calls, 1) + 1};
}

// For the recorder and the watchdog: an operation begins.
TUTTI_DEVICE void TellBegun(const CallTicket& ticket, const DevicePlan& plan, std::uint64_t sequence,
                            std::uint64_t digest) {
  DeviceCall call{};
  call.index = ticket.index;
  call.sequence = sequence;
  call.digest = digest;
  call.signature = plan.signature;
  call.call = plan.call;
  call.count = plan.count;
  DeviceCall& entry = ticket.progress->calls[call.index % kProgressEntries];
  StoreRelaxed(&entry.index, call.index);
  StoreRelaxed(&entry.sequence, call.sequence);
  StoreRelaxed(&entry.digest, call.digest);
  StoreRelaxed(&entry.signature, call.signature);
  StoreRelaxed(&entry.call, call.call);
  StoreRelaxed(&entry.count, call.count);
  StoreRelaxed(&entry.check, CheckOf(call));
}

// A peer did something else than was agreed. Everybody on this rank is to stop. The kind is told last. Returns false,
// for whoever cannot go on.
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

}  // namespace tutti
