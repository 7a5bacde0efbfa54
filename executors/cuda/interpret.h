// The interpreter: how a block runs one lane of one operation. It runs the lane's steps, waits for slots and other
// lanes, moves data, and publishes, as the host's executor does (executors/host/run.cc), but for waiting: a block has
// nothing else to do.
//
// Order of publication, bulk wire: all threads' stores, a barrier, then one thread's release of the flag, which the
// reader acquires before its block's barrier lets the others read; likewise for heads. Line wire: a packet is its own
// flag (packet.h); a head is stored relaxed, because every load of the slot has returned - its flag was looked at -
// before the barrier that precedes the store.
//
// Thread-safety: called by all threads of a grid's block, all of whose blocks are resident.
#pragma once

#include "executors/cuda/device_plan.h"
#include "executors/cuda/move.h"

namespace tutti {

// What the threads of a block share.
struct BlockState {
  Move move;
  std::uint64_t scalar;
};

class LaneRun {
 public:
  TUTTI_DEVICE LaneRun(BlockState& shared, const DeviceWorkQueue& queue, const DeviceWork& work, std::uint32_t lane,
                       std::uint64_t sequence)
      : shared_(shared),
        rank_(*queue.rank),
        progress_(queue.lanes),
        work_(work),
        plan_(*work.plan),
        index_(lane),
        lane_(work.plan->lanes[lane]),
        sequence_(sequence),
        tag_(OperationTag(work.plan->signature, sequence)) {}

  // False if it was stopped.
  TUTTI_DEVICE bool Run() {
    if (ThreadIndex() == 0) shared_.scalar = Scalar();
    bool referred = false;
    TUTTI_ROLLED
    for (std::uint32_t chunk = 0; chunk < lane_.chunks; ++chunk) {
      TUTTI_ROLLED
      for (std::uint32_t s = 0; s < lane_.steps; ++s) {
        const DeviceStep& step = plan_.steps[lane_.first_step + s];
        if (chunk < step.chunks) {
          const DeviceOperand* const reference = ReferenceFor(step);
          referred = referred || reference != nullptr;
          if (!RunStep(step, chunk, reference)) return false;
        }
        if (ThreadIndex() == 0) StoreRelease(progress_ + index_, Position(chunk, lane_.steps, s + 1), false);
      }
    }
    // A lane with fewer chunks has, at its end, done all it ever will.
    if (ThreadIndex() == 0) StoreRelease(progress_ + index_, sequence_ << 32 | ~std::uint32_t{0}, false);
    return !referred || Drain();
  }

 private:
  TUTTI_DEVICE std::uint64_t Scalar() const {
    if (work_.scalar_source == nullptr) return work_.scalar;
    return LoadWord(static_cast<const std::byte*>(work_.scalar_source), plan_.element_bytes, false);
  }

  // How far a lane is, as one number that grows from operation to operation.
  TUTTI_DEVICE std::uint64_t Position(std::uint32_t chunk, std::uint32_t steps, std::uint32_t steps_done) const {
    return sequence_ << 32 | (chunk * steps + steps_done);
  }

  // Memory that the step's slots refer to instead of carrying the data; null: they carry it.
  TUTTI_DEVICE const DeviceOperand* ReferenceFor(const DeviceStep& step) const {
    if (plan_.wire != Wire::bulk || step.referable < 0) return nullptr;
    const DeviceOperand& memory = plan_.operands[step.operands + step.referable];
    const bool input = memory.place == Place::input;
    const auto kind = static_cast<SlotKind>(input ? work_.input_kind : work_.output_kind);
    if (kind == SlotKind::value || (input && work_.scaled && memory.scaled)) return nullptr;
    return &memory;
  }

  TUTTI_DEVICE std::byte* Memory(const DeviceOperand& operand, std::uint64_t done) const {
    switch (operand.place) {
      // Never written through: the schedule's inputs are only read.
      case Place::input: return const_cast<std::byte*>(work_.input) + operand.offset + done;
      case Place::output: return work_.output + operand.offset + done;
      default:
        return plan_.scratch + lane_.channel * plan_.scratch_bytes + operand.offset + (plan_.whole_scratch ? done : 0);
    }
  }

  TUTTI_DEVICE bool RunStep(const DeviceStep& step, std::uint32_t chunk, const DeviceOperand* reference) {
    const std::uint64_t done = ChunkBegin(chunk, plan_.chunk_bytes);
    const auto bytes = static_cast<std::uint32_t>(ChunkLength(step.bytes, chunk, plan_.chunk_bytes));
    if (SyncOr(!Prepare(step, chunk, done, bytes, reference))) return false;
    bool moved = plan_.wire != Wire::line || TakeHeaders(step, bytes);
    if (moved && shared_.move.destination_count > 0) {
      moved = shared_.move.arithmetic ? Reduce(shared_.move) : Copy(shared_.move);
    }
    if (SyncOr(!moved)) return false;
    Publish(step, done, bytes, reference);
    Sync();  // another thread may see to an end in the next step
    return true;
  }

  template <typename Ready>
  TUTTI_DEVICE bool Await(Ready&& ready) const {
    return AwaitUntil(&rank_.stop, rank_.abort, ready);
  }

  // Each operand is seen to by one thread: waits until it is ready and says where its data is. False: stopped or
  // faulty.
  TUTTI_DEVICE bool Prepare(const DeviceStep& step, std::uint32_t chunk, std::uint64_t done, std::uint32_t bytes,
                            const DeviceOperand* reference) {
    auto& move = shared_.move;
    if (ThreadIndex() == 0) {
      const std::uint64_t scaled = work_.scaled ? ScaledMask(step) : 0;
      const std::int32_t divisor = step.final ? plan_.divisor : 0;
      move.arithmetic = step.arithmetic || scaled != 0 || divisor > 1;
      move.packets = plan_.wire == Wire::line;
      move.scaled = scaled;
      move.scalar = shared_.scalar;
      move.divisor = divisor;
      move.reducer = plan_.reducer;
      move.bytes = bytes;
      move.stop = &rank_.stop;
      move.abort = rank_.abort;
      move.source_count = step.reads;
      move.destination_count = CountDestinations(step, reference);
    }
    const std::uint32_t operands = step.reads + step.writes;
    TUTTI_ROLLED
    for (std::uint32_t i = ThreadIndex(); i < operands + step.afters; i += ThreadCount()) {
      const bool ready = i < step.reads ? PrepareRead(step, i, done, bytes)
                         : i < operands ? PrepareWrite(step, i - step.reads, done, reference)
                                        : AwaitLane(plan_.afters[step.after + i - operands], chunk);
      if (!ready) return false;
    }
    return true;
  }

  TUTTI_DEVICE bool AwaitLane(const DeviceAfter& after, std::uint32_t chunk) const {
    const std::uint64_t wanted = Position(chunk, plan_.lanes[after.lane].steps, after.step + 1);
    // By their difference: sequence numbers wrap.
    return Await([&] { return static_cast<std::int64_t>(LoadAcquire(progress_ + after.lane, false) - wanted) >= 0; });
  }

  TUTTI_DEVICE std::uint64_t ScaledMask(const DeviceStep& step) const {
    std::uint64_t mask = 0;
    TUTTI_ROLLED
    for (std::uint32_t i = 0; i < step.reads; ++i) {
      if (plan_.operands[step.operands + i].scaled) mask |= std::uint64_t{1} << i;
    }
    return mask;
  }

  TUTTI_DEVICE static bool IsSlot(const DeviceOperand& operand) {
    return operand.place == Place::from || operand.place == Place::to || operand.place == Place::post;
  }
  // Destinations that one write takes in the Move: none where slots refer, one for each reader of packets.
  TUTTI_DEVICE std::uint32_t DestinationsOf(const DeviceOperand& operand, const DeviceOperand* reference) const {
    if (!IsSlot(operand)) return 1;
    if (reference != nullptr) return 0;
    return plan_.wire == Wire::line ? rank_.fills[operand.end].reader_count : 1;
  }
  TUTTI_DEVICE std::uint32_t FirstDestination(const DeviceStep& step, std::uint32_t write,
                                              const DeviceOperand* reference) const {
    std::uint32_t first = 0;
    TUTTI_ROLLED
    for (std::uint32_t w = 0; w < write; ++w) {
      first += DestinationsOf(plan_.operands[step.operands + step.reads + w], reference);
    }
    return first;
  }
  TUTTI_DEVICE std::uint32_t CountDestinations(const DeviceStep& step, const DeviceOperand* reference) const {
    return FirstDestination(step, step.writes, reference);
  }

  TUTTI_DEVICE bool PrepareRead(const DeviceStep& step, std::uint32_t i, std::uint64_t done, std::uint32_t bytes) {
    auto& move = shared_.move;
    const DeviceOperand& operand = plan_.operands[step.operands + i];
    move.source_numbers[i] = 0;
    if (!IsSlot(operand)) {
      move.sources[i] = Memory(operand, done);
      return true;
    }
    const DeviceEmptyEnd& end = rank_.empties[operand.end];
    const std::uint32_t slot = SlotIndex(end.count, end.depth);
    if (plan_.wire == Wire::line) {
      move.sources[i] = end.packets + std::size_t{slot} * end.stride + kPacketBytes;
      move.source_numbers[i] = end.count + 1;
      return true;
    }
    const DeviceSlotHeader& header = end.headers[slot];
    const std::uint64_t wanted = SlotFlag(end.count + 1, tag_);
    std::uint64_t flag = 0;
    const bool came = Await([&] {
      flag = LoadAcquire(&header.flag, rank_.wide);
      return FlagNumber(flag) == FlagNumber(wanted);
    });
    if (!came) return false;
    if (flag != wanted) return Fault(DeviceFaultKind::foreign, end.peer, 0, 0);
    if (header.bytes != bytes) return Fault(DeviceFaultKind::length, end.peer, bytes, header.bytes);
    switch (static_cast<SlotKind>(header.kind)) {
      case SlotKind::value: move.sources[i] = end.data + std::size_t{slot} * end.stride; break;
      case SlotKind::window:
        move.sources[i] = rank_.windows[header.window * rank_.nranks + end.peer] + header.address;
        break;
      default: move.sources[i] = reinterpret_cast<const std::byte*>(header.address); break;
    }
    return true;
  }

  TUTTI_DEVICE bool PrepareWrite(const DeviceStep& step, std::uint32_t write, std::uint64_t done,
                                 const DeviceOperand* reference) {
    auto& move = shared_.move;
    const DeviceOperand& operand = plan_.operands[step.operands + step.reads + write];
    const std::uint32_t first = FirstDestination(step, write, reference);
    if (!IsSlot(operand)) {
      move.destinations[first] = Memory(operand, done);
      move.destination_numbers[first] = 0;
      return true;
    }
    DeviceFillEnd& end = rank_.fills[operand.end];
    if (!Await([&] { return HasRoom(end); })) return false;
    const std::size_t at = std::size_t{SlotIndex(end.tail, end.depth)} * end.stride;
    if (plan_.wire == Wire::line) {
      TUTTI_ROLLED
      for (std::uint32_t r = 0; r < end.reader_count; ++r) {
        move.destinations[first + r] = end.readers[r].packets + at + kPacketBytes;
        move.destination_numbers[first + r] = end.tail + 1;
      }
    } else if (reference == nullptr) {
      move.destinations[first] = end.data + at;
      move.destination_numbers[first] = 0;
    }
    return true;
  }

  // Slots that every reader has emptied.
  TUTTI_DEVICE std::uint32_t SlowestHead(const DeviceFillEnd& end) const {
    std::uint32_t lag = 0;
    TUTTI_ROLLED
    for (std::uint32_t r = 0; r < end.reader_count; ++r) {
      const std::uint32_t behind = end.tail - LoadAcquire(end.readers[r].head, rank_.wide);
      lag = behind > lag ? behind : lag;
    }
    return end.tail - lag;
  }
  TUTTI_DEVICE bool HasRoom(DeviceFillEnd& end) const {
    if (FreeSlots(end.tail, end.known_head, end.depth) > 0) return true;
    end.known_head = SlowestHead(end);
    return FreeSlots(end.tail, end.known_head, end.depth) > 0;
  }

  // Line wire: the first packet of each slot, written for those we fill and checked for those we empty.
  TUTTI_DEVICE bool TakeHeaders(const DeviceStep& step, std::uint32_t bytes) {
    auto& move = shared_.move;
    const std::uint64_t header = tag_ | std::uint64_t{bytes} << 32;
    TUTTI_ROLLED
    for (std::uint32_t d = ThreadIndex(); d < move.destination_count; d += ThreadCount()) {
      const std::uint32_t number = move.destination_numbers[d];
      if (number != 0) StorePacket(move.destinations[d] - kPacketBytes, number, header);
    }
    TUTTI_ROLLED
    for (std::uint32_t s = ThreadIndex(); s < move.source_count; s += ThreadCount()) {
      const std::uint32_t number = move.source_numbers[s];
      if (number == 0) continue;
      std::uint64_t got = 0;
      const std::byte* const packet = move.sources[s] - kPacketBytes;
      if (!Await([&] { return LoadPacket(packet, number, &got); })) return false;
      const std::int32_t peer = rank_.empties[plan_.operands[step.operands + s].end].peer;
      if (static_cast<std::uint32_t>(got) != tag_) return Fault(DeviceFaultKind::foreign, peer, 0, 0);
      if (got != header) return Fault(DeviceFaultKind::length, peer, bytes, got >> 32);
    }
    return true;
  }

  TUTTI_DEVICE void Publish(const DeviceStep& step, std::uint64_t done, std::uint32_t bytes,
                            const DeviceOperand* reference) {
    const std::uint32_t operands = step.reads + step.writes;
    TUTTI_ROLLED
    for (std::uint32_t i = ThreadIndex(); i < operands; i += ThreadCount()) {
      const DeviceOperand& operand = plan_.operands[step.operands + i];
      if (!IsSlot(operand)) continue;
      if (i < step.reads) {
        Release(rank_.empties[operand.end]);
      } else {
        Fill(rank_.fills[operand.end], done, bytes, reference);
      }
    }
  }

  TUTTI_DEVICE void Release(DeviceEmptyEnd& end) const {
    ++end.count;
    if (plan_.wire == Wire::line) {
      StoreRelaxed(end.head, end.count);
    } else {
      StoreRelease(end.head, end.count, rank_.wide);
    }
  }

  TUTTI_DEVICE void Fill(DeviceFillEnd& end, std::uint64_t done, std::uint32_t bytes, const DeviceOperand* reference) {
    const std::uint32_t slot = SlotIndex(end.tail, end.depth);
    TUTTI_ROLLED
    for (std::uint32_t r = 0; r < end.reader_count && plan_.wire == Wire::bulk; ++r) {
      DeviceSlotHeader& header = end.readers[r].headers[slot];
      header.bytes = bytes;
      header.kind = static_cast<std::uint16_t>(SlotKind::value);
      if (reference != nullptr) {
        const bool input = reference->place == Place::input;
        header.kind = input ? work_.input_kind : work_.output_kind;
        header.window = input ? work_.input_window : work_.output_window;
        header.address = (input ? work_.input_base : work_.output_base) + reference->offset + done;
      }
      StoreRelease(&header.flag, SlotFlag(end.tail + 1, tag_), rank_.wide);
    }
    ++end.tail;
  }

  // The caller may reuse its buffers once the operation is done, so nobody may still be reading them.
  TUTTI_DEVICE bool Drain() {
    bool drained = true;
    TUTTI_ROLLED
    for (std::uint32_t i = ThreadIndex(); i < lane_.fills && drained; i += ThreadCount()) {
      DeviceFillEnd& end = rank_.fills[plan_.drained[lane_.first_fill + i]];
      drained = Await([&] {
        end.known_head = SlowestHead(end);
        return end.known_head == end.tail;
      });
    }
    return !SyncOr(!drained);
  }

  // Tells the host, and everybody on this rank to stop. The kind is told last.
  TUTTI_DEVICE bool Fault(DeviceFaultKind kind, std::int32_t peer, std::uint64_t expected, std::uint64_t got) const {
    auto& progress = *rank_.progress;
    std::uint32_t none = 0;
    if (GpuAtomic<std::uint32_t>(rank_.stop).compare_exchange_strong(none, 1, kRelaxed)) {
      StoreRelaxed(&progress.fault_peer, peer);
      StoreRelaxed(&progress.fault_expected, expected);
      StoreRelaxed(&progress.fault_got, got);
      StoreRelease(&progress.fault_kind, static_cast<std::uint32_t>(kind), true);
    }
    return false;
  }

  BlockState& shared_;
  DeviceRank& rank_;
  std::uint64_t* const progress_;
  const DeviceWork& work_;
  const DevicePlan& plan_;
  const std::uint32_t index_;
  const DeviceLane& lane_;
  const std::uint64_t sequence_;
  const std::uint32_t tag_;
};

}  // namespace tutti
