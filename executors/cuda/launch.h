// What every block of the one kernel does: finds its lane among the launch's queues, runs the queue's operations one
// after the other (interpret.h), and leaves everything as the next launch wants to find it.
//
// Thread-safety: called by all threads of a grid's block, all of whose blocks are resident.
#pragma once

#include "executors/cuda/interpret.h"

namespace tutti {

// Waits until all blocks of the queue have done with its `done`-th operation of this launch.
TUTTI_DEVICE bool AwaitOthers(const DeviceWorkQueue& queue, std::uint32_t done) {
  Sync();
  bool all = true;
  if (ThreadIndex() == 0) {
    const std::uint32_t wanted = done * queue.blocks;
    GpuAtomic<std::uint32_t>(queue.queue->arrived).fetch_add(1, kAcquireRelease);
    all = AwaitUntil(&queue.rank->stop, queue.rank->abort,
                     [&] { return LoadAcquire(&queue.queue->arrived, false) >= wanted; });
  }
  return !SyncOr(!all);
}

// For the recorder and the watchdog: an operation begins.
TUTTI_DEVICE void TellBegun(DeviceRank& rank, const DevicePlan& plan, std::uint64_t sequence) {
  DeviceCall call{};
  // Queues of one rank number their calls together.
  call.index = GpuAtomic<std::uint64_t>(rank.calls).fetch_add(1, kRelaxed) + 1;
  call.sequence = sequence;
  call.signature = plan.signature;
  call.call = plan.call;
  call.count = plan.count;
  DeviceCall& entry = rank.progress->calls[call.index % kProgressEntries];
  StoreRelaxed(&entry.index, call.index);
  StoreRelaxed(&entry.sequence, call.sequence);
  StoreRelaxed(&entry.signature, call.signature);
  StoreRelaxed(&entry.call, call.call);
  StoreRelaxed(&entry.count, call.count);
  StoreRelaxed(&entry.check, CheckOf(call));
}

// The last block of a queue leaves everything as the next launch wants to find it.
TUTTI_DEVICE void Leave(const DeviceWorkQueue& queue) {
  Sync();
  if (ThreadIndex() != 0) return;
  DeviceQueue& state = *queue.queue;
  if (GpuAtomic<std::uint32_t>(state.finished).fetch_add(1, kAcquireRelease) + 1 != queue.blocks) return;
  state.finished = 0;
  state.arrived = 0;
  state.sequence += queue.works;
  StoreRelaxed(queue.rank->done + (queue.queue - queue.rank->queues), state.sequence);
}

// What one block of a launch does.
TUTTI_DEVICE void Interpret(const DeviceLaunch& launch, BlockState& shared) {
  const DeviceWorkQueue* const queues = launch.more_queues != nullptr ? launch.more_queues : launch.queues;
  const DeviceWork* const works = launch.more_works != nullptr ? launch.more_works : launch.works;
  std::uint32_t q = 0;
  while (q + 1 < launch.queue_count && BlockIndex() >= queues[q + 1].first_block) ++q;
  const DeviceWorkQueue& queue = queues[q];
  const std::uint32_t lane = BlockIndex() - queue.first_block;
  const std::uint64_t before = queue.queue->sequence;
  TUTTI_ROLLED
  for (std::uint32_t w = 0; w < queue.works; ++w) {
    const DeviceWork& work = works[queue.first_work + w];
    const std::uint64_t sequence = before + w + 1;
    if (lane == 0 && ThreadIndex() == 0) TellBegun(*queue.rank, *work.plan, sequence);
    if (lane < work.plan->lane_count && !LaneRun(shared, queue, work, lane, sequence).Run()) return;
    // The next operation's lanes use the same connections, perhaps in other blocks.
    if (w + 1 < queue.works && queue.blocks > 1 && !AwaitOthers(queue, w + 1)) return;
    Sync();
  }
  Leave(queue);
}

}  // namespace tutti
