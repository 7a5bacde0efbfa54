// The body of the kernel that sends and awaits the signals of one-sided operations. Both ranks only count: the sender's
// count lies in the waiting rank's memory, where that one polls it, and how many the waiting rank has taken in its own.
// All counts are on the GPUs, so that a captured graph can be replayed.
//
// Thread-safety: one thread runs it. Several launches of one rank may run at the same time.
#pragma once

#include "executors/cuda/kernels/operands.h"
#include "executors/cuda/kernels/tell.h"

namespace tutti::cuda_kernels {

// Counts one more, here and in memory of a peer or the host. GPUs that reach each other over PCIe cannot add in each
// other's memory, so this stores; blocks of this rank take turns, so that no older count overwrites a newer one. The
// release puts the count after what this GPU wrote before; a copy that the stream has ended is visible everywhere.
TUTTI_DEVICE void CountOne(DeviceRank& rank, std::uint64_t* own, std::uint64_t* theirs) {
  GpuAtomic<std::uint32_t> turn(rank.signalling);
  for (std::uint32_t free = 0; !turn.compare_exchange_strong(free, 1, kAcquire); free = 0) Pause();
  const std::uint64_t count = LoadRelaxed(own) + 1;
  StoreRelaxed(own, count);
  StoreRelease(theirs, count, true);
  turn.store(0, kRelease);
}

// Takes so many signals, and waits until they have come. Two waits at the same time take different ones. False: it was
// told to stop.
TUTTI_DEVICE bool TakeSignals(DeviceRank& rank, const SignalWork& work, std::uint64_t sequence) {
  if (LoadRelaxed(&rank.halted) == 0) {
    const CallTicket ticket = TakeTicket(rank);
    DeviceCall call{};
    call.index = ticket.index;
    call.sequence = sequence;
    call.call = work.call;
    call.count = work.amount;
    Report(ticket, call);
  }
  const std::uint64_t wanted = FetchAdd(work.own, work.amount) + work.amount;
  return AwaitUntil(&rank.stop, rank.abort, [&] { return LoadAcquire(work.counter, true) >= wanted; });
}

TUTTI_DEVICE void RunSignals(const SignalLaunch& launch) {
  if (launch.rank == nullptr) return;  // the first launch, which only loads the kernel
  DeviceRank& rank = *launch.rank;
  bool ok = true;
  TUTTI_ROLLED
  for (std::uint32_t i = 0; i < launch.count && ok; ++i) {
    const SignalWork& work = launch.works[i];
    const std::uint64_t sequence = FetchAdd(work.sequence, 1) + 1;
    if (work.waits) {
      ok = TakeSignals(rank, work, sequence);
    } else {
      CountOne(rank, work.own, work.counter);
    }
    if (ok) StoreRelaxed(work.done, sequence);
  }
  if (!ok) {
    StoreRelaxed(&rank.halted, std::uint32_t{1});
    TUTTI_ROLLED
    while (rank.holds && LoadRelaxed(rank.abort) != kReleaseKernels) Pause();
  }
  if (launch.ended != nullptr) CountOne(rank, &rank.signal_launches, launch.ended);
}

}  // namespace tutti::cuda_kernels
