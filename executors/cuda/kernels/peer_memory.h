// Operations whose steps name other ranks' buffers (algorithms/builders/peer_memory.cc): their ranks share a GPU and a
// process, so all parts are in one launch, which begins when all have called. Nothing waits and nothing needs a slot. A
// block fetches its plan and compares what all ranks have called in one trip to memory, and moves its share of a step
// in a second one.
//
// Thread-safety: called by all threads of a block. Blocks do not wait for each other.
#pragma once

#include "executors/cuda/kernels/device_plan.h"
#include "executors/cuda/kernels/move.h"
#include "executors/cuda/kernels/tell.h"

namespace tutti::cuda_kernels {

struct PeerState {
  Vector plan[kPeerPlanVectors];
  struct Buffers {
    const std::byte* input;
    std::byte* output;
  };
  Buffers buffers[kMostLaunchedTogether];  // by rank
  // Here and not in registers, because the loops that move data need the registers.
  DeviceWorkQueue queue;
  Buffers own;
  Share share;          // of the step
  std::uint32_t block;  // of the queue
  std::uint32_t step, chunk;
  std::uint32_t site;              // DeviceWork::site
  std::uint64_t place;             // DeviceWork::place
  std::uint64_t sequence, digest;  // with this operation

  template <typename T>
  TUTTI_DEVICE const T& At(std::size_t byte) const {
    return *reinterpret_cast<const T*>(reinterpret_cast<const std::byte*>(plan) + byte);
  }
  TUTTI_DEVICE const DeviceLane& Lane() const { return At<DeviceLane>(sizeof(DevicePlan)); }
  TUTTI_DEVICE const DeviceStep& Step() const { return At<DeviceStep>(kPeerStepsAt + step * sizeof(DeviceStep)); }
  TUTTI_DEVICE const DeviceOperand& Operand(const DeviceStep& of, std::uint32_t i) const {
    return At<DeviceOperand>(kPeerStepsAt + Lane().steps * sizeof(DeviceStep) +
                             (of.operands + i) * sizeof(DeviceOperand));
  }
};

// An entry of the launch, by value: through a pointer to either array, the compiler would read parameters as if they
// were memory.
template <typename T>
TUTTI_DEVICE T EntryOf(const T* more, const T* inlined, std::uint32_t i) {
  if (more != nullptr) return more[i];
  return inlined[i];
}

// Fills the state. False if a rank has called something else, now or before, which no slot would tell, or has stopped.
TUTTI_DEVICE bool FetchPeers(const DeviceLaunch& launch, const DeviceWorkQueue& queue, const DeviceWork& work,
                             PeerState& peers) {
  // All addresses are in the parameters, so these loads are in flight together.
  const auto* const image = reinterpret_cast<const std::byte*>(work.plan);
  const std::uint32_t vectors = kPlanVectors + work.lane_vectors;
  Vector first{};
  if (ThreadIndex() < vectors) first = LoadGlobal<Vector>(image + ThreadIndex() * kVectorBytes);
  const std::uint64_t signature = work.plan->signature ^ work.place;
  const std::uint32_t steps = reinterpret_cast<const DeviceLane*>(work.plan + 1)->steps;
  const std::uint64_t sequence = LoadRelaxed(&queue.queue->sequence);
  const std::uint64_t before = LoadRelaxed(&queue.queue->digest);
  const std::uint32_t failed = LoadRelaxed(&queue.queue->failed);
  bool alike = true;
  TUTTI_ROLLED
  for (std::uint32_t r = ThreadIndex(); r < launch.collectives; r += ThreadCount()) {
    const DeviceWork other_work = EntryOf(launch.more_works, launch.works, r);
    const DeviceWorkQueue other = EntryOf(launch.more_queues, launch.queues, r);
    const std::uint64_t other_signature = other_work.plan->signature ^ other_work.place;
    const std::uint64_t theirs = LoadRelaxed(&other.queue->digest);
    const std::uint32_t stopped = LoadRelaxed(&other.rank->stop);
    peers.buffers[r] = {other_work.input, other_work.output};
    // A rank that has ended already has this operation in its digest, too.
    const bool same_calls = theirs == before || theirs == ring::NextDigest(before, signature);
    if (other_signature != signature || !same_calls) {
      alike = TellFault(*queue.rank, DeviceFaultKind::foreign, static_cast<std::int32_t>(r), 0, 0);
    }
    if (stopped != 0) alike = false;
  }
  if (ThreadIndex() < vectors) peers.plan[ThreadIndex()] = first;
  TUTTI_ROLLED
  for (std::uint32_t v = ThreadIndex() + ThreadCount(); v < vectors; v += ThreadCount()) {
    peers.plan[v] = LoadGlobal<Vector>(image + v * kVectorBytes);
  }
  if (ThreadIndex() == 0) {
    peers.queue = queue;
    peers.site = work.site;
    peers.place = work.place;
    peers.own = {work.input, work.output};
    peers.block = BlockIndex() - queue.first_block;
    peers.step = peers.block % steps;
    peers.share = {peers.block / steps, queue.blocks / steps - 1};
    peers.chunk = 0;
    peers.sequence = sequence + 1;
    peers.digest = ring::NextDigest(before, signature);
  }
  return !SyncOr(!alike || failed != 0);
}

// Prepares the move of a chunk. Contains no barrier.
TUTTI_DEVICE void PreparePeers(const PeerState& peers, Move& move) {
  const auto& plan = peers.At<DevicePlan>(0);
  const auto& step = peers.Step();
  if (ThreadIndex() == 0) {
    move.divisor = step.final ? plan.divisor : 0;
    move.arithmetic = step.arithmetic || move.divisor > 1;
    move.packets = move.lines = false;
    move.scaled = 0;
    move.reducer = plan.reducer;
    move.bytes = ring::ChunkLength(step.bytes, peers.chunk, plan.chunk_bytes);
    move.share = peers.share;
    move.source_count = step.reads;
    move.destination_count = step.writes;
  }
  TUTTI_ROLLED
  for (std::uint32_t i = ThreadIndex(); i < step.reads + step.writes; i += ThreadCount()) {
    const DeviceOperand& operand = peers.Operand(step, i);
    const PeerState::Buffers& buffers = operand.end == kOwnMemory ? peers.own : peers.buffers[operand.end];
    // Never written through: the schedule's inputs are only read.
    std::byte* const buffer =
        operand.kind == schedule::OperandKind::input ? const_cast<std::byte*>(buffers.input) : buffers.output;
    std::byte* const at = buffer + operand.offset + ring::ChunkBegin(peers.chunk, plan.chunk_bytes);
    if (i < step.reads) {
      move.sources[i] = at;
      move.source_numbers[i] = 0;
    } else {
      move.destinations[i - step.reads] = at;
      move.destination_numbers[i - step.reads] = 0;
    }
  }
}

// Reports the operation to the host, in one thread of the queue: the last one of its first block, because a small message
// is for the first threads.
TUTTI_DEVICE void TellPeers(const PeerState& peers) {
  if (peers.block != 0 || ThreadIndex() != ThreadCount() - 1 || LoadRelaxed(&peers.queue.rank->halted) != 0) return;
  TellBegun(TakeTicket(*peers.queue.rank), peers.At<DevicePlan>(0), peers.place, peers.sequence, peers.digest,
            peers.site);
}

// Moves this block's share of its step, and reports the operation.
TUTTI_DEVICE void MovePeers(PeerState& peers, Move& move) {
  for (;;) {  // once even without data, for the report
    PreparePeers(peers, move);
    Sync();
    if (peers.chunk == 0) TellPeers(peers);
    Carry(move);
    Sync();
    if (peers.chunk + 1 >= peers.Step().chunks) return;
    Sync();  // all have looked
    if (ThreadIndex() == 0) ++peers.chunk;
    Sync();
  }
}

}  // namespace tutti::cuda_kernels
