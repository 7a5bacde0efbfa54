// The body of every block of a kernel: it finds its lanes among the launch's queues, runs the queue's operations in
// order (interpret.h), and resets the queue's state for the next launch.
//
// A queue of messages may have fewer blocks than a message has lanes: block b then runs lanes b, b + blocks, ... one after
// the other. The other rank may have another number of blocks. No message waits forever: take the first of its lanes that
// has not ended on both sides. On each side, the block that runs it has ended all its earlier lanes, which are before it,
// so both sides run it.
//
// Thread-safety: called by all threads of a block; all blocks of the grid are resident.
#pragma once

#include "executors/cuda/kernels/interpret.h"

namespace tutti::cuda_kernels {

// Waits until all blocks of the queue have finished its `done`-th operation of this launch.
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

// Lanes' progress is forgotten when the number of operations passes a multiple of this, well before their numbers repeat
// (LaneRun::Position). Zero satisfies no wait, because every wait is for at least one step.
inline constexpr std::uint64_t kProgressPeriod = std::uint64_t{1} << 30;

// Records the launch's operations as done. One thread of the queue's last block calls it.
TUTTI_DEVICE void Finish(const DeviceWorkQueue& queue, std::uint64_t sequence, std::uint64_t digest) {
  DeviceQueue& state = *queue.queue;
  if ((sequence - queue.works) / kProgressPeriod != sequence / kProgressPeriod) {
    TUTTI_ROLLED
    for (std::uint64_t lane = 0; lane < state.lanes; ++lane) queue.lanes[lane] = 0;
  }
  state.sequence = sequence;
  StoreRelaxed(&state.digest, digest);  // other ranks may look (peer_memory.h)
  StoreRelaxed(queue.rank->done + (queue.queue - queue.rank->queues), sequence);
}

// The last block of a queue resets the queue's state for the next launch. `ok`: this block was not stopped, and
// `sequence` and `digest` are those of the last operation.
TUTTI_DEVICE void Leave(const DeviceWorkQueue& queue, bool ok, std::uint64_t sequence = 0, std::uint64_t digest = 0) {
  Sync();
  if (ThreadIndex() != 0) return;
  DeviceQueue& state = *queue.queue;
  if (!ok) StoreRelaxed(&state.failed, std::uint32_t{1});
  if (queue.blocks > 1) {
    if (GpuAtomic<std::uint32_t>(state.finished).fetch_add(1, kAcquireRelease) + 1 != queue.blocks) return;
    state.finished = 0;
    state.arrived = 0;
  }
  if (LoadRelaxed(&state.failed) != 0) {
    StoreRelaxed(&queue.rank->halted, std::uint32_t{1});
    TUTTI_ROLLED
    while (queue.rank->holds && LoadRelaxed(queue.rank->abort) != kReleaseKernels) Pause();
    return;
  }
  Finish(queue, sequence, digest);
}

// The queue that this block belongs to. All threads call it; `found` is in shared memory.
TUTTI_DEVICE DeviceWorkQueue QueueOf(const DeviceLaunch& launch, std::uint32_t& found) {
  if (launch.blocks_each != 0) return EntryOf(launch.more_queues, launch.queues, BlockIndex() / launch.blocks_each);
  if (launch.more_queues == nullptr) {  // parameters: cheap to read one after the other
    std::uint32_t q = 0;
    while (q + 1 < launch.queue_count && BlockIndex() >= launch.queues[q + 1].first_block) ++q;
    return launch.queues[q];
  }
  // Host memory, a trip over PCIe away: the threads read all entries at the same time.
  TUTTI_ROLLED
  for (std::uint32_t q = ThreadIndex(); q < launch.queue_count; q += ThreadCount()) {
    const DeviceWorkQueue& queue = launch.more_queues[q];
    if (BlockIndex() - queue.first_block < queue.blocks) found = q;
  }
  Sync();
  return launch.more_queues[found];
}

// Runs one block of a queue whose operation names other ranks' buffers, which is alone in it.
TUTTI_DEVICE void RunPeerMemory(const DeviceLaunch& launch, const DeviceWorkQueue& queue, const DeviceWork& work,
                                BlockState& shared) {
  PeerState& peers = shared.peers;
  if (!FetchPeers(launch, queue, work, peers)) {
    TellPeers(peers);
    return Leave(queue, false);
  }
  MovePeers(peers, shared.move);
  // A queue that had failed before was stopped above.
  if (peers.queue.blocks > 1) return Leave(peers.queue, true, peers.sequence, peers.digest);
  if (ThreadIndex() == 0) Finish(peers.queue, peers.sequence, peers.digest);
}

// Runs one block of a launch.
TUTTI_DEVICE void Interpret(const DeviceLaunch& launch, BlockState& shared) {
  if (launch.queue_count == 0) return;
  const DeviceWorkQueue queue = QueueOf(launch, shared.queue);
  const std::uint32_t first_lane = BlockIndex() - queue.first_block;
  bool tells = false;
  TUTTI_ROLLED
  for (std::uint32_t w = 0; w < queue.works; ++w) {
    const DeviceWork work = EntryOf(launch.more_works, launch.works, queue.first_work + w);
    if (w == 0) {
      if (work.one_launch) return RunPeerMemory(launch, queue, work, shared);
      // The last thread reports, because the first ones have more to fetch. A rank whose earlier launch was stopped
      // reports nothing more: the operation at which it stopped is its last.
      tells = first_lane == 0 && ThreadIndex() == ThreadCount() - 1 && LoadRelaxed(&queue.rank->halted) == 0;
    }
    const DevicePlan& plan = *work.plan;
    CallTicket ticket{};
    if (tells) ticket = TakeTicket(*queue.rank);
    if (ThreadIndex() == 0) shared.lane.work = work;
    // A single work has at least as many lanes as there are blocks.
    if (queue.works == 1 || first_lane < plan.lane_count) {
      // The next lane's place is read from shared memory, so that it takes no registers while data moves.
      LanePlace place{work.plan, work.lane_vectors, first_lane};
      std::uint32_t number = w + 1;
      TUTTI_ROLLED
      for (;;) {
        LaneRun run(shared, queue, place, number);
        if (tells && number != 0) run.Tell(ticket);
        if (!run.Run()) return Leave(queue, false);
        place = {shared.lane.work.plan, shared.lane.work.lane_vectors, shared.lane.index + queue.blocks};
        if (place.lane >= shared.lane.plan.lane_count) break;
        number = 0;
        Sync();  // the next lane uses this block's memory
      }
    } else {
      if (ThreadIndex() == 0) shared.lane.digest = DigestOf(shared.lane, queue, plan, w + 1);
      if (first_lane == 0) {
        Sync();
        if (tells) TellBegun(ticket, plan, work.place, queue.queue->sequence + w + 1, shared.lane.digest, work.site);
      }
    }
    if (w + 1 == queue.works) break;
    // The next operation's lanes use the same connections, perhaps in other blocks, and this block's memory.
    if (queue.blocks > 1) {
      if (!AwaitOthers(queue, w + 1)) return Leave(queue, false);
    } else {
      Sync();
    }
  }
  Leave(queue, true, shared.lane.before + queue.works, shared.lane.digest);
}

}  // namespace tutti::cuda_kernels
