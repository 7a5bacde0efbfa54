// Caches in shared memory what a lane reads repeatedly. An acquire discards the first-level cache, after which each
// pointer on the way to a slot - step, operand, end, reader - would cost a trip to the second level, in every step. So
// all of it is fetched when the lane begins, in two trips for any number of steps: the plan with the lane, whose place
// the launch knows; and the ends with their readers, whose numbers are in the lane's table. A lane that is too long is
// read in place.
//
// Slot counts are kept here too, and written back when the lane is done. A stopped lane does not write them back,
// because no operation follows it.
//
// Thread-safety: called by all threads of a block, which share one LaneCache. An end is changed by one thread at a
// time, with a barrier before the next.
#pragma once

#include "executors/cuda/kernels/device.h"
#include "executors/cuda/kernels/device_plan.h"

namespace tutti::cuda_kernels {

// Enough for rings and trees of eight ranks in a few channels, and for a step of 64 operands.
inline constexpr std::uint32_t kCachedVectors = 256;  // of a lane's table
inline constexpr std::uint32_t kCachedFills = 16;
inline constexpr std::uint32_t kCachedEmpties = 64;
inline constexpr std::uint32_t kCachedReaders = 64;

struct LaneCache {
  DevicePlan plan;
  DeviceWork work;
  DeviceLane lane;
  Vector strided[2][sizeof(schedule::Strided) / kVectorBytes];  // the input's and the output's
  Vector table[kCachedVectors];
  cuda_transport::DeviceFillEnd fills[kCachedFills];
  cuda_transport::DeviceEmptyEnd empties[kCachedEmpties];
  cuda_transport::DeviceReader readers[kCachedReaders];
  // The lane keeps these here and not in registers, because the loops that move data need the registers
  // (docs/notebook/gpu/compiler.md).
  DeviceRank* rank;
  std::uint64_t* progress;  // of all lanes of the queue
  const std::byte* steps;   // the lane's table, cached or in place
  std::uint64_t sequence;   // of the operation
  std::uint32_t index;      // the lane
  bool ends_cached, readers_cached;
  std::uint64_t before;  // operations that the queue had done when the launch began
  std::uint64_t digest;  // of the queue's operations up to this one; only thread 0 writes it
  // Copied from the rank.
  const DeviceWindow* windows;
  const std::uint32_t* abort;
  std::int32_t nranks;
  bool wide;
  bool one_process;
};

inline constexpr auto kLaneVectors = static_cast<std::uint32_t>(sizeof(DeviceLane) / kVectorBytes);
inline constexpr auto kPlanVectors = static_cast<std::uint32_t>(sizeof(DevicePlan) / kVectorBytes);

// A header of an end. Headers lie side by side, or each with its slot where a network is at the other end.
template <typename Header>
TUTTI_DEVICE Header* HeaderAt(Header* first, std::uint32_t slot, std::uint32_t stride) {
  using Byte = std::conditional_t<std::is_const_v<Header>, const std::byte, std::byte>;
  return reinterpret_cast<Header*>(reinterpret_cast<Byte*>(first) + std::size_t{slot} * stride);
}

// Counts a slot of an end, and returns its number in 64 bits.
TUTTI_DEVICE std::uint64_t CountSlot(std::uint32_t& count, std::uint32_t& wraps) {
  if (++count == 0) ++wraps;
  return std::uint64_t{wraps} << 32 | count;
}

// The digest up to the queue's `number`-th operation of this launch, counted from 1. Thread 0, which has written the work to
// the cache, calls it once for each.
TUTTI_DEVICE std::uint64_t DigestOf(const LaneCache& cache, const DeviceWorkQueue& queue, const DevicePlan& plan,
                                    std::uint32_t number) {
  return ring::NextDigest(number == 1 ? queue.queue->digest : cache.digest, plan.signature ^ cache.work.place);
}

// Where a lane's table is.
struct LanePlace {
  const DevicePlan* plan;
  std::uint32_t lane_vectors;  // DeviceWork::lane_vectors
  std::uint32_t lane;
};

// A lane's steps and the ends that they name, cached or in place.
class LaneTable {
 public:
  struct Fill {
    cuda_transport::DeviceFillEnd& end;
    const cuda_transport::DeviceReader* readers;
  };

  // Fills the cache, except `work`, for the queue's `number`-th operation of this launch, counted from 1; 0: for another lane
  // of the operation that it was filled for. Contains all barriers that it needs.
  TUTTI_DEVICE LaneTable(LaneCache& cache, const DeviceWorkQueue& queue, const LanePlace& place, std::uint32_t number)
      : cache_(cache) {
    DeviceRank& rank = *queue.rank;
    const DevicePlan& plan = *place.plan;
    const auto* const lane =
        reinterpret_cast<const std::byte*>(&plan + 1) + std::size_t{place.lane} * place.lane_vectors * kVectorBytes;
    const std::byte* const table = lane + sizeof(DeviceLane);
    const std::uint32_t behind = place.lane_vectors - kLaneVectors;
    // Loads come before the stores that wait for them, so that independent loads are in flight together.
    const Fetch plan_fetch(&plan, kPlanVectors);
    const Fetch lane_fetch(lane, kLaneVectors);
    const Fetch table_fetch(table, behind <= kCachedVectors ? behind : kCachedVectors);
    const bool again = number == 0;
    const std::uint64_t before = queue.queue->sequence;
    const std::uint64_t sequence = again ? cache.sequence : before + number;
    const std::uint64_t digest = ThreadIndex() != 0 ? 0 : again ? cache.digest : DigestOf(cache, queue, plan, number);
    const DeviceWindow* const windows = rank.windows;
    const std::uint32_t* const abort = rank.abort;
    const std::int32_t nranks = rank.nranks;
    const bool wide = rank.wide;
    const bool one_process = rank.one_process;
    const auto* const fills = reinterpret_cast<const Word*>(rank.fills);
    const auto* const empties = reinterpret_cast<const Word*>(rank.empties);
    const DeviceReader* const readers = rank.readers;

    plan_fetch.Store(&cache.plan);
    lane_fetch.Store(&cache.lane);
    table_fetch.Store(cache.table);
    if (ThreadIndex() == 0) {
      cache.rank = &rank;
      cache.progress = queue.lanes;
      cache.sequence = sequence;
      cache.index = place.lane;
      cache.before = before;
      cache.digest = digest;
      cache.windows = windows;
      cache.abort = abort;
      cache.nranks = nranks;
      cache.wide = wide;
      cache.one_process = one_process;
    }
    Sync();
    FetchEnds(table, fills, empties, readers);
    Sync();
  }

  TUTTI_DEVICE const DeviceStep& Step(std::uint32_t s) const {
    return reinterpret_cast<const DeviceStep*>(cache_.steps)[s];
  }
  // The i-th operand of a step: its reads, then its writes.
  TUTTI_DEVICE const DeviceOperand& Operand(const DeviceStep& step, std::uint32_t i) const {
    return Operands(cache_.lane, cache_.steps)[step.operands + i];
  }
  TUTTI_DEVICE const DeviceAfter& After(const DeviceStep& step, std::uint32_t i) const {
    return Afters(cache_.lane, cache_.steps)[step.after + i];
  }

  // Fetches what StridedOf() needs. All threads call it, once.
  TUTTI_DEVICE void FetchStrided() const {
    constexpr auto kVectors = static_cast<std::uint32_t>(sizeof(schedule::Strided) / kVectorBytes);
    const auto vectors_of = [](const schedule::Strided* strided) { return strided != nullptr ? kVectors : 0; };
    const Fetch input(cache_.plan.input_strided, vectors_of(cache_.plan.input_strided));
    const Fetch output(cache_.plan.output_strided, vectors_of(cache_.plan.output_strided));
    input.Store(cache_.strided[0]);
    output.Store(cache_.strided[1]);
    Sync();
  }

  // The layout of an operand in memory; null: dense.
  TUTTI_DEVICE const schedule::Strided* StridedOf(const DeviceOperand& operand) const {
    if (operand.kind == schedule::OperandKind::input && cache_.plan.input_strided != nullptr) return CachedStrided(0);
    if (operand.kind == schedule::OperandKind::output && cache_.plan.output_strided != nullptr) return CachedStrided(1);
    return nullptr;
  }

  TUTTI_DEVICE cuda_transport::DeviceEmptyEnd& EmptyOf(const DeviceOperand& operand) const {
    return cache_.ends_cached ? cache_.empties[operand.local] : cache_.rank->empties[operand.end];
  }
  TUTTI_DEVICE Fill FillOf(const DeviceOperand& operand) const { return FillAt(operand.local, operand.end); }
  // The `local`-th end that the lane fills.
  TUTTI_DEVICE Fill FillAt(std::uint32_t local) const { return FillAt(local, Ends(cache_.lane, cache_.steps)[local]); }

  // Writes the counts back for the next operation, whose block reads them after a barrier.
  TUTTI_DEVICE void Keep() const {
    if (!cache_.ends_cached) return;
    const DeviceLane& lane = cache_.lane;
    TUTTI_ROLLED
    for (std::uint32_t i = ThreadIndex(); i < lane.fills + lane.empties; i += ThreadCount()) {
      const std::uint32_t index = Ends(lane, cache_.steps)[i];
      if (i < lane.fills) {
        cache_.rank->fills[index].tail = cache_.fills[i].tail;
        cache_.rank->fills[index].wraps = cache_.fills[i].wraps;
        cache_.rank->fills[index].known_head = cache_.fills[i].known_head;
      } else {
        cache_.rank->empties[index].count = cache_.empties[i - lane.fills].count;
        cache_.rank->empties[index].wraps = cache_.empties[i - lane.fills].wraps;
      }
    }
  }

 private:
  using Word = std::uint64_t;
  using DeviceReader = cuda_transport::DeviceReader;
  static constexpr std::uint32_t kFillWords = sizeof(cuda_transport::DeviceFillEnd) / sizeof(Word);
  static constexpr std::uint32_t kEmptyWords = sizeof(cuda_transport::DeviceEmptyEnd) / sizeof(Word);
  static_assert(sizeof(cuda_transport::DeviceFillEnd) % sizeof(Word) == 0 &&
                sizeof(cuda_transport::DeviceEmptyEnd) % sizeof(Word) == 0);
  static_assert(kFillWords <= kEmptyWords);

  // The parts of a table (DeviceLane).
  TUTTI_DEVICE static const DeviceOperand* Operands(const DeviceLane& lane, const std::byte* table) {
    return reinterpret_cast<const DeviceOperand*>(table + lane.steps * sizeof(DeviceStep));
  }
  TUTTI_DEVICE static const DeviceAfter* Afters(const DeviceLane& lane, const std::byte* table) {
    return reinterpret_cast<const DeviceAfter*>(Operands(lane, table) + lane.operands);
  }
  TUTTI_DEVICE static const std::uint32_t* Ends(const DeviceLane& lane, const std::byte* table) {
    return reinterpret_cast<const std::uint32_t*>(Afters(lane, table) + lane.afters);
  }
  TUTTI_DEVICE static const std::uint32_t* Readers(const DeviceLane& lane, const std::byte* table) {
    return Ends(lane, table) + lane.fills + lane.empties;
  }
  TUTTI_DEVICE static const std::uint32_t* FirstReaders(const DeviceLane& lane, const std::byte* table) {
    return Readers(lane, table) + lane.readers;
  }

  // Copies vectors from memory to the cache: first one per thread, then the rest.
  class Fetch {
   public:
    TUTTI_DEVICE Fetch(const void* from, std::uint32_t count)
        : from_(static_cast<const std::byte*>(from)), count_(count), first_{} {
      if (ThreadIndex() < count) first_ = LoadGlobal<Vector>(from_ + ThreadIndex() * kVectorBytes);
    }
    TUTTI_DEVICE void Store(void* to) const {
      auto* const vectors = static_cast<Vector*>(to);
      if (ThreadIndex() < count_) vectors[ThreadIndex()] = first_;
      TUTTI_ROLLED
      for (std::uint32_t i = ThreadIndex() + ThreadCount(); i < count_; i += ThreadCount()) {
        vectors[i] = LoadGlobal<Vector>(from_ + i * kVectorBytes);
      }
    }

   private:
    const std::byte* from_;
    std::uint32_t count_;
    Vector first_;
  };

  // Both kinds of end use the same instructions, because a warp whose threads diverge would make the trip twice.
  TUTTI_DEVICE void FetchEnd(const DeviceLane& lane, std::uint32_t i, const Word* from) const {
    const bool fills = i < lane.fills;
    auto* const to =
        fills ? reinterpret_cast<Word*>(cache_.fills + i) : reinterpret_cast<Word*>(cache_.empties + (i - lane.fills));
    const std::uint32_t count = fills ? kFillWords : kEmptyWords;
    Word words[kEmptyWords];
    TUTTI_UNROLL
    for (std::uint32_t w = 0; w < kEmptyWords; ++w) words[w] = w < count ? from[w] : 0;
    TUTTI_UNROLL
    for (std::uint32_t w = 0; w < kEmptyWords; ++w) {
      if (w < count) to[w] = words[w];
    }
  }

  TUTTI_DEVICE const schedule::Strided* CachedStrided(std::uint32_t side) const {
    return reinterpret_cast<const schedule::Strided*>(cache_.strided[side]);
  }

  // The second trip: the ends, and their readers. The last threads fetch readers, so that a warp does not wait for ends
  // first. `table`: of the lane, in memory.
  TUTTI_DEVICE void FetchEnds(const std::byte* table, const Word* fills, const Word* empties,
                              const DeviceReader* readers) const {
    const DeviceLane& lane = cache_.lane;
    const bool ends_cached = lane.fills <= kCachedFills && lane.empties <= kCachedEmpties;
    const bool readers_cached = ends_cached && lane.readers <= kCachedReaders;
    const auto* const last = reinterpret_cast<const std::byte*>(FirstReaders(lane, table) + lane.fills);
    const bool table_cached = static_cast<std::size_t>(last - table) <= sizeof cache_.table;
    const std::byte* const steps = table_cached ? reinterpret_cast<const std::byte*>(cache_.table) : table;
    if (ThreadIndex() == 0) {
      cache_.steps = steps;
      cache_.ends_cached = ends_cached;
      cache_.readers_cached = readers_cached;
    }
    const std::uint32_t ends = ends_cached ? lane.fills + lane.empties : 0;
    TUTTI_ROLLED
    for (std::uint32_t i = ThreadIndex(); i < ends; i += ThreadCount()) {
      const std::uint32_t number = Ends(lane, steps)[i];
      FetchEnd(lane, i, i < lane.fills ? fills + number * kFillWords : empties + number * kEmptyWords);
    }
    const std::uint32_t cached = readers_cached ? lane.readers : 0;
    TUTTI_ROLLED
    for (std::uint32_t r = ThreadCount() - 1 - ThreadIndex(); r < cached; r += ThreadCount()) {
      cache_.readers[r] = readers[Readers(lane, steps)[r]];
    }
  }

  TUTTI_DEVICE Fill FillAt(std::uint32_t local, std::uint32_t index) const {
    cuda_transport::DeviceFillEnd& end = cache_.ends_cached ? cache_.fills[local] : cache_.rank->fills[index];
    if (!cache_.readers_cached) return {end, end.readers};
    return {end, cache_.readers + FirstReaders(cache_.lane, cache_.steps)[local]};
  }

  LaneCache& cache_;
};

}  // namespace tutti::cuda_kernels
