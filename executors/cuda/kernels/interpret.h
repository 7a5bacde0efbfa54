// The interpreter: a block runs one lane of one operation as the host's executor does (executors/host/run.cc), but waits
// in place, because it has nothing else to do.
//
// Order of publication, bulk protocol: all threads store, a barrier, then one thread fences and stores its flags,
// relaxed. The reader's thread polls and fences (device.h), and its block's barrier lets the others read; likewise for
// heads. Line protocol: a packet is its own flag (packet.h); a head is stored relaxed without a fence, because every
// load of the slot has returned - its flag was checked - before the barrier that precedes the store. Inline protocol: the
// same with lines (line128.h); a load that counts has returned, because its data has been stored. A network carries bulk
// slots whatever the plan's protocol: in a step with packets or lines, their data is moved like memory.
//
// The first threads make a step's operands ready and the last ones publish them, so that a block of several warps waits
// for the next step's slots while its last warp still waits for its stores to become visible.
//
// Thread-safety: called by all threads of a block; all blocks of the grid are resident.
#pragma once

#include "executors/cuda/kernels/fill.h"
#include "executors/cuda/kernels/in_switch.h"
#include "executors/cuda/kernels/move.h"
#include "executors/cuda/kernels/peer_memory.h"
#include "executors/cuda/kernels/tell.h"

namespace tutti::cuda_kernels {

inline constexpr std::uint32_t kMostOperands = schedule::kMaxReads + schedule::kMaxWrites;

// State that the threads of a block share.
struct BlockState {
  Move move;
  LaneCache lane;
  PeerState peers;
  std::uint64_t scalar;
  // Slot numbers by operand: of this step, and of the one before, which is still being published.
  std::uint32_t numbers[2][kMostOperands];
  std::uint32_t queue;  // that the block belongs to
};

class LaneRun {
 public:
  // Runs a lane of the `number`-th operation of the queue in this launch, counted from 1; 0: of the one of which this block
  // ran a lane before. REQUIRES: thread 0 has written the operation's work to shared.lane.
  TUTTI_DEVICE LaneRun(BlockState& shared, const DeviceWorkQueue& queue, const LanePlace& place, std::uint32_t number)
      : shared_(shared),
        table_(shared.lane, queue, place, number),
        plan_(shared.lane.plan),
        work_(shared.lane.work),
        lane_(shared.lane.lane) {
    if (plan_.input_strided != nullptr || plan_.output_strided != nullptr) table_.FetchStrided();
  }

  // Reports that the operation begins. One thread calls it before Run().
  TUTTI_DEVICE void Tell(const CallTicket& ticket) const {
    TellBegun(ticket, plan_, work_.place, Sequence(), shared_.lane.digest, work_.site);
  }

  // False if it was stopped.
  TUTTI_DEVICE bool Run() {
    if (ThreadIndex() == 0) shared_.scalar = Scalar();
    bool referred = false;
    std::uint32_t runs = 0;
    TUTTI_ROLLED
    for (std::uint32_t chunk = 0; chunk < lane_.chunks; ++chunk) {
      TUTTI_ROLLED
      for (std::uint32_t s = 0; s < lane_.steps; ++s) {
        const DeviceStep& step = table_.Step(s);
        const std::uint64_t position = Position(chunk, lane_.steps, s + 1);
        if (chunk < step.chunks) {
          const DeviceOperand* const reference = ReferenceFor(step);
          referred = referred || reference != nullptr;
          if (!RunStep(step, chunk, position, reference, shared_.numbers[runs++ % 2])) return false;
        } else if (step.awaited && IsTeller()) {
          StoreRelease(OwnProgress(), position, false);
        }
      }
    }
    // A finished lane satisfies every wait for it, even for chunks beyond its own.
    if (lane_.awaited && IsTeller()) StoreRelease(OwnProgress(), Sequence() << 32 | ~std::uint32_t{0}, false);
    table_.Keep();
    return !referred || Drain();
  }

 private:
  TUTTI_DEVICE std::uint64_t Scalar() const {
    if (work_.scalar_source == nullptr) return work_.scalar;
    const DensePlaces<const std::byte> source{static_cast<const std::byte*>(work_.scalar_source)};
    return LoadWord(source, 0, plan_.element_bytes, false);
  }

  // This thread's index, counted from the last thread.
  TUTTI_DEVICE static std::uint32_t FromLast() { return ThreadCount() - 1 - ThreadIndex(); }
  // One thread reports the lane's progress, so that the reported value only grows.
  TUTTI_DEVICE static bool IsTeller() { return FromLast() == 0; }

  // A lane's progress: the operation's sequence number, modulo 2^32, and the number of its steps done. Leave()
  // (launch.h) forgets what is old before a number repeats.
  TUTTI_DEVICE std::uint64_t Position(std::uint32_t chunk, std::uint32_t steps, std::uint32_t steps_done) const {
    return Sequence() << 32 | (chunk * steps + steps_done);
  }

  // Memory that the step's slots refer to instead of carrying the data; null: they carry it.
  TUTTI_DEVICE const DeviceOperand* ReferenceFor(const DeviceStep& step) const {
    if (plan_.protocol != ring::Protocol::bulk || step.referable < 0) return nullptr;
    const DeviceOperand& memory = table_.Operand(step, step.referable);
    const bool input = memory.kind == schedule::OperandKind::input;
    const auto kind = static_cast<ring::SlotKind>(input ? work_.input_kind : work_.output_kind);
    if (kind == ring::SlotKind::value || (input && work_.scaled && memory.scaled)) return nullptr;
    return &memory;
  }

  // Where the step's bytes begin, for an operand in memory; the buffer if it is strided. Strided steps use `walk`.
  TUTTI_DEVICE std::byte* Memory(const DeviceStep& step, const DeviceOperand& operand, std::uint64_t done,
                                 Walk& walk) const {
    std::byte* base;
    switch (operand.kind) {
      // Never written through: the schedule's inputs are only read.
      case schedule::OperandKind::input: base = const_cast<std::byte*>(work_.input); break;
      case schedule::OperandKind::output: base = work_.output; break;
      default: base = plan_.scratch + lane_.channel * plan_.scratch_bytes; done = plan_.whole_scratch ? done : 0;
    }
    if (step.strided) {
      walk.strided = table_.StridedOf(operand);
      if (walk.strided != nullptr) {
        walk.buffer = base;
        BeginAt(walk, operand.offset + done);
        return base;
      }
    }
    return base + operand.offset + done;
  }

  TUTTI_DEVICE bool RunStep(const DeviceStep& step, std::uint32_t chunk, std::uint64_t position,
                            const DeviceOperand* reference, std::uint32_t* numbers) {
    const std::uint64_t done = ring::ChunkBegin(chunk, plan_.chunk_bytes);
    const auto bytes = static_cast<std::uint32_t>(ring::ChunkLength(step.bytes, chunk, plan_.chunk_bytes));
    if (SyncOr(!Prepare(step, chunk, done, bytes, reference, numbers))) return false;
    bool moved = plan_.protocol == ring::Protocol::bulk || TakeHeaders(step, bytes);
    // Strided steps have barriers, and a warp's threads wait for lines together: all of them move data, or none.
    if (plan_.protocol != ring::Protocol::bulk && step.strided) moved = !SyncOr(!moved);
    if (plan_.protocol == ring::Protocol::inlined) moved = AllOfWarp(moved);
    if (moved && shared_.move.destination_count > 0) moved = CarryStep(step);
    if (SyncOr(!moved)) return false;
    // Only the next step's barrier waits for this: it changes nothing that the next step prepares.
    Publish(step, position, done, bytes, reference, numbers);
    return true;
  }

  TUTTI_DEVICE bool CarryStep(const DeviceStep& step) {
    if (step.in_switch == 0) return step.strided ? CarryWalked(shared_.move) : Carry(shared_.move);
    CarryInSwitch(shared_.move);
    return true;
  }

  template <typename Ready>
  TUTTI_DEVICE bool Await(Ready&& ready) const {
    return AwaitUntil(&Rank().stop, shared_.lane.abort, ready);
  }
  // Also acquires what was written before it became ready. `wide`: the writer may be outside this GPU.
  template <typename Ready>
  TUTTI_DEVICE bool AwaitAndAcquire(bool wide, Ready&& ready) const {
    if (!Await(ready)) return false;
    AcquirePolled(wide);
    return true;
  }

  // One thread handles each operand: it waits until the operand is ready and records where its data is. False: stopped
  // or faulty.
  TUTTI_DEVICE bool Prepare(const DeviceStep& step, std::uint32_t chunk, std::uint64_t done, std::uint32_t bytes,
                            const DeviceOperand* reference, std::uint32_t* numbers) {
    auto& move = shared_.move;
    if (ThreadIndex() == 0) {
      const std::uint64_t scaled = work_.scaled ? ScaledMask(step) : 0;
      const std::int32_t divisor = step.final ? plan_.divisor : 0;
      move.arithmetic = step.arithmetic || scaled != 0 || divisor > 1;
      // A step between memory and a network moves faster without them.
      const bool has_short = plan_.protocol != ring::Protocol::bulk && HasShortSlots(step);
      move.packets = has_short && plan_.protocol == ring::Protocol::line;
      move.lines = has_short && plan_.protocol == ring::Protocol::inlined;
      move.scaled = scaled;
      move.scalar = shared_.scalar;
      move.divisor = divisor;
      move.reducer = plan_.reducer;
      move.bytes = bytes;
      move.staging = plan_.staging + shared_.lane.index * plan_.staged * kStagedBytes;
      move.stop = &Rank().stop;
      move.abort = shared_.lane.abort;
      move.share = {};
      move.summed = SwitchUse(step.in_switch).sum() ? Summed(step) : 0;
      move.multicast = SwitchUse(step.in_switch).multicast();
      move.source_count = step.reads;
      move.destination_count = FirstDestination(step, step.writes, reference);
    }
    const std::uint32_t operands = step.reads + step.writes;
    TUTTI_ROLLED
    for (std::uint32_t i = ThreadIndex(); i < operands + step.afters; i += ThreadCount()) {
      const bool ready = i < step.reads ? PrepareRead(step, i, done, bytes, numbers + i)
                         : i < operands ? PrepareWrite(step, i - step.reads, done, reference, numbers + i)
                                        : AwaitLane(table_.After(step, i - operands), chunk);
      if (!ready) return false;
    }
    return true;
  }

  // No lane is ahead by an operation. A lane that is behind, by one or many (a lane without waiters reports nothing),
  // has another number in the upper half.
  TUTTI_DEVICE bool AwaitLane(const DeviceAfter& after, std::uint32_t chunk) const {
    const std::uint64_t wanted = Position(chunk, after.steps, after.step + 1);
    return AwaitAndAcquire(false, [&] {
      const std::uint64_t position = LoadPolled(shared_.lane.progress + after.lane, false);
      return position >> 32 == wanted >> 32 && position >= wanted;
    });
  }

  // The reads of a sum, which come first.
  TUTTI_DEVICE std::uint32_t Summed(const DeviceStep& step) const {
    std::uint32_t reads = 0;
    TUTTI_ROLLED
    while (reads < step.reads && table_.Operand(step, reads).kind == schedule::OperandKind::sum) ++reads;
    return reads;
  }

  TUTTI_DEVICE std::uint64_t ScaledMask(const DeviceStep& step) const {
    std::uint64_t mask = 0;
    TUTTI_ROLLED
    for (std::uint32_t i = 0; i < step.reads; ++i) {
      if (table_.Operand(step, i).scaled) mask |= std::uint64_t{1} << i;
    }
    return mask;
  }

  TUTTI_DEVICE static bool IsSlot(const DeviceOperand& operand) { return schedule::IsSlot(operand.kind); }
  TUTTI_DEVICE bool HasShortSlots(const DeviceStep& step) const {
    TUTTI_ROLLED
    for (std::uint32_t i = 0; i < step.reads + step.writes; ++i) {
      const DeviceOperand& operand = table_.Operand(step, i);
      if (!IsSlot(operand)) continue;
      const auto* const packets =
          i < step.reads ? table_.EmptyOf(operand).packets : table_.FillOf(operand).readers[0].packets;
      if (packets != nullptr) return true;
    }
    return false;
  }
  TUTTI_DEVICE bool IsBulk(const std::byte* packets) const {
    return plan_.protocol == ring::Protocol::bulk || packets == nullptr;
  }
  // Destinations that one write takes in the Move: none if its slot refers, one per reader for packets and lines.
  TUTTI_DEVICE std::uint32_t DestinationsOf(const DeviceOperand& operand, const DeviceOperand* reference) const {
    if (!IsSlot(operand)) return 1;
    if (reference != nullptr) return 0;
    return plan_.protocol != ring::Protocol::bulk ? table_.FillOf(operand).end.reader_count : 1;
  }
  TUTTI_DEVICE std::uint32_t FirstDestination(const DeviceStep& step, std::uint32_t write,
                                              const DeviceOperand* reference) const {
    std::uint32_t first = 0;
    TUTTI_ROLLED
    for (std::uint32_t w = 0; w < write; ++w) {
      first += DestinationsOf(table_.Operand(step, step.reads + w), reference);
    }
    return first;
  }

  // Bytes from the start of a slot of packets or lines to its data. The packet that describes it ends there.
  TUTTI_DEVICE std::size_t DataAt() const {
    return plan_.protocol == ring::Protocol::line ? kPacketBytes : kLine128Bytes;
  }

  // Prepare counts a slot as processed and leaves its number for the thread that publishes the step.
  TUTTI_DEVICE bool PrepareRead(const DeviceStep& step, std::uint32_t i, std::uint64_t done, std::uint32_t bytes,
                                std::uint32_t* number) {
    auto& move = shared_.move;
    const DeviceOperand& operand = table_.Operand(step, i);
    move.source_numbers[i] = 0;
    if (!IsSlot(operand)) {
      move.sources[i] = Memory(step, operand, done, move.source_walks[i]);
      return true;
    }
    if (step.strided) move.source_walks[i].strided = nullptr;
    cuda_transport::DeviceEmptyEnd& end = table_.EmptyOf(operand);
    const std::uint32_t slot = ring::SlotIndex(end.count, end.depth);
    const std::uint64_t counted = CountSlot(end.count, end.wraps);
    *number = end.count;
    if (!IsBulk(end.packets)) {
      move.sources[i] = end.packets + std::size_t{slot} * end.stride + DataAt();
      move.source_numbers[i] = counted;
      return true;
    }
    const cuda_transport::DeviceSlotHeader& header = *HeaderAt(end.headers, slot, end.header_stride);
    const std::uint64_t wanted = ring::SlotFlag(end.count, Tag());
    std::uint64_t flag = 0;
    const bool came = AwaitAndAcquire(shared_.lane.wide, [&] {
      flag = LoadPolled(&header.flag, shared_.lane.wide);
      return ring::FlagNumber(flag) == ring::FlagNumber(wanted);
    });
    if (!came) return false;
    if (flag != wanted) return TellFault(Rank(), DeviceFaultKind::foreign, end.peer, 0, 0);
    // Loads each word once, because every process of the host can write it, and both together: each load is a trip.
    const cuda_transport::DeviceSlotContent content(LoadRelaxed(&header.content));
    const std::uint64_t address = LoadRelaxed(&header.address);
    if (content.bytes() != bytes) return TellFault(Rank(), DeviceFaultKind::length, end.peer, bytes, content.bytes());
    move.sources[i] = content.kind() == ring::SlotKind::value ? end.data + std::size_t{slot} * end.stride
                                                              : Referred(content, address, end.peer, bytes);
    if (move.sources[i] != nullptr) return true;
    return TellFault(Rank(), DeviceFaultKind::forged, end.peer, 0, static_cast<std::uint64_t>(content.kind()));
  }

  // The data that a slot refers to; null: the reference lies in no memory that the peer shared.
  TUTTI_DEVICE const std::byte* Referred(const cuda_transport::DeviceSlotContent& content, std::uint64_t address,
                                         std::int32_t peer, std::uint32_t bytes) const {
    if (content.kind() == ring::SlotKind::pointer && shared_.lane.one_process) {
      return reinterpret_cast<const std::byte*>(address);
    }
    if (content.kind() != ring::SlotKind::window || content.window() >= kDeviceWindows) return nullptr;
    const DeviceWindow& window = shared_.lane.windows[content.window() * shared_.lane.nranks + peer];
    const std::uint64_t length = window.bytes;
    return address <= length && bytes <= length - address ? window.begin + address : nullptr;
  }

  TUTTI_DEVICE bool PrepareWrite(const DeviceStep& step, std::uint32_t write, std::uint64_t done,
                                 const DeviceOperand* reference, std::uint32_t* number) {
    auto& move = shared_.move;
    const DeviceOperand& operand = table_.Operand(step, step.reads + write);
    const std::uint32_t first = FirstDestination(step, write, reference);
    if (!IsSlot(operand)) {
      move.destinations[first] = Memory(step, operand, done, move.destination_walks[first]);
      move.destination_numbers[first] = 0;
      return true;
    }
    const LaneTable::Fill fill = table_.FillOf(operand);
    cuda_transport::DeviceFillEnd& end = fill.end;
    if (ring::FreeSlots(end.tail, end.known_head, end.depth) == 0 && !AwaitRoom(fill)) return false;
    const std::size_t at = std::size_t{ring::SlotIndex(end.tail, end.depth)} * end.stride;
    const std::uint64_t counted = CountSlot(end.tail, end.wraps);
    *number = end.tail;
    if (!IsBulk(fill.readers[0].packets)) {
      TUTTI_ROLLED
      for (std::uint32_t r = 0; r < end.reader_count; ++r) {
        move.destinations[first + r] = fill.readers[r].packets + at + DataAt();
        move.destination_numbers[first + r] = counted;
      }
    } else if (reference == nullptr) {
      move.destinations[first] = end.data + at;
      move.destination_numbers[first] = 0;
      if (step.strided) move.destination_walks[first].strided = nullptr;
    }
    return true;
  }

  TUTTI_DEVICE bool AwaitRoom(const LaneTable::Fill& fill) const {
    return AwaitAndAcquire(shared_.lane.wide, [&] {
      fill.end.known_head = SlowestHead(fill, shared_.lane.wide);
      return ring::FreeSlots(fill.end.tail, fill.end.known_head, fill.end.depth) > 0;
    });
  }

  // Packets and lines: writes the packet that describes each slot that this block fills and checks that of each slot it
  // empties. The last threads check, because the first ones wait for data at the same time.
  TUTTI_DEVICE bool TakeHeaders(const DeviceStep& step, std::uint32_t bytes) {
    auto& move = shared_.move;
    const std::uint64_t header = Tag() | std::uint64_t{bytes} << 32;
    TUTTI_ROLLED
    for (std::uint32_t d = ThreadIndex(); d < move.destination_count; d += ThreadCount()) {
      if (move.destination_numbers[d] == 0) continue;
      const std::uint32_t number = PacketNumber(move.destination_numbers[d]);
      StorePacket(move.destinations[d] - kPacketBytes, number, header);
      if (move.packets && RenewsSlot(number)) RenewPackets(move.destinations[d], number, bytes, plan_.slot_packets);
    }
    TUTTI_ROLLED
    for (std::uint32_t s = FromLast(); s < move.source_count; s += ThreadCount()) {
      if (move.source_numbers[s] == 0) continue;
      const std::uint32_t number = PacketNumber(move.source_numbers[s]);
      std::uint64_t got = 0;
      const std::byte* const packet = move.sources[s] - kPacketBytes;
      if (!Await([&] { return LoadPacket(packet, number, &got); })) return false;
      const std::int32_t peer = table_.EmptyOf(table_.Operand(step, s)).peer;
      if (static_cast<std::uint32_t>(got) != Tag()) return TellFault(Rank(), DeviceFaultKind::foreign, peer, 0, 0);
      if (got != header) return TellFault(Rank(), DeviceFaultKind::length, peer, bytes, got >> 32);
    }
    return true;
  }

  // One thread publishes each operand, and one the lane's progress if a step waits for it.
  TUTTI_DEVICE void Publish(const DeviceStep& step, std::uint64_t position, std::uint64_t done, std::uint32_t bytes,
                            const DeviceOperand* reference, const std::uint32_t* numbers) const {
    const std::uint32_t operands = step.reads + step.writes;
    TUTTI_ROLLED
    for (std::uint32_t item = FromLast(); item <= operands; item += ThreadCount()) {
      const bool tells = item == 0 && step.awaited;
      const DeviceOperand* const operand = item > 0 ? &table_.Operand(step, item - 1) : nullptr;
      const bool slot = operand != nullptr && IsSlot(*operand);
      const bool fills = slot && item > step.reads;
      const bool bulk =
          slot && IsBulk(fills ? table_.FillOf(*operand).readers[0].packets : table_.EmptyOf(*operand).packets);
      const std::uint32_t number = slot ? numbers[item - 1] : 0;
      if (fills && bulk) Describe(table_.FillOf(*operand), number, HeaderOf(work_, reference, done, bytes));
      // One fence covers all that a thread publishes, and all threads of a warp.
      if (tells || bulk) ReleaseStores(bulk && shared_.lane.wide);
      if (tells) {
        StoreReleased(OwnProgress(), position);
      } else if (fills && bulk) {
        RaiseFlags(table_.FillOf(*operand), number, Tag());
      } else if (slot && !fills) {
        StoreReleased(table_.EmptyOf(*operand).head, number);
      }
    }
  }

  // The caller may reuse its buffers once the operation is done, so no peer may still be reading them.
  TUTTI_DEVICE bool Drain() {
    bool drained = true;
    TUTTI_ROLLED
    for (std::uint32_t i = ThreadIndex(); i < lane_.fills && drained; i += ThreadCount()) {
      const LaneTable::Fill fill = table_.FillAt(i);
      drained =
          AwaitAndAcquire(shared_.lane.wide, [&] { return SlowestHead(fill, shared_.lane.wide) == fill.end.tail; });
    }
    return !SyncOr(!drained);
  }

  // All in shared memory, so that none of it takes registers while data moves.
  TUTTI_DEVICE DeviceRank& Rank() const { return *shared_.lane.rank; }
  TUTTI_DEVICE std::uint64_t Sequence() const { return shared_.lane.sequence; }
  TUTTI_DEVICE std::uint32_t Tag() const { return ring::OperationTag(shared_.lane.digest); }
  TUTTI_DEVICE std::uint64_t* OwnProgress() const { return shared_.lane.progress + shared_.lane.index; }

  BlockState& shared_;
  const LaneTable table_;
  const DevicePlan& plan_;
  const DeviceWork& work_;
  const DeviceLane& lane_;
};

}  // namespace tutti::cuda_kernels
