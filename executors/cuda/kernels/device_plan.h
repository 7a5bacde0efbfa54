// Data that the host writes for a GPU to read: plans, ends of connections, launches. Plain data in device memory.
//
// A lane of a schedule is a thread block. State that outlives a launch - slot counts, sequence numbers - lies here and
// not in host memory, so that a captured graph can be replayed without the host.
//
// Thread-safety: plans are read only. An end belongs to the one block that runs its lane; operations of one queue
// follow one another.
#pragma once

#include <cstddef>
#include <cstdint>

#include "algorithms/schedule/schedule.h"
#include "algorithms/schedule/strided.h"
#include "transports/cuda/ring.h"

namespace tutti::cuda_kernels {

// Tables are read sixteen bytes at a time.
inline constexpr std::size_t kTableAlignment = 16;

struct alignas(kTableAlignment) DeviceOperand {
  schedule::OperandKind kind;
  bool scaled;
  std::uint16_t local;   // slots: index among the lane's fill or empty ends
  std::uint32_t end;     // slots: index among the rank's fill or empty ends; memory: whose it is, or kOwnMemory
  std::uint64_t offset;  // memory: bytes from the start of input, output or the channel's scratch
};

// DeviceOperand::end for this rank's own buffers.
inline constexpr std::uint32_t kOwnMemory = ~std::uint32_t{0};

struct alignas(kTableAlignment) DeviceStep {
  std::uint64_t bytes;     // of the step's block in this channel
  std::uint32_t chunks;    // how often it runs
  std::uint32_t operands;  // index of its first operand among the lane's: reads, then writes
  std::uint32_t after;     // index of its first DeviceAfter among the lane's
  std::int32_t referable;  // operand that the slots may refer to; -1: none
  std::uint8_t reads, writes, afters;
  bool arithmetic, final;
  bool awaited;  // another step waits for it
  bool strided;  // some operand is strided
  std::uint8_t in_switch;  // SwitchUse
};

// How a step uses the switch between GPUs (in_switch.h), in a byte; 0: it does not.
class SwitchUse {
 public:
  constexpr explicit SwitchUse(std::uint8_t byte) : byte_(byte) {}
  // `multicast`: which of the step's writes is one; -1: none.
  constexpr SwitchUse(bool sum, int multicast)
      : byte_(static_cast<std::uint8_t>((sum ? kSum : 0) | (multicast + 1) << kMulticastAt)) {}
  constexpr std::uint8_t byte() const { return byte_; }
  constexpr bool sum() const { return (byte_ & kSum) != 0; }
  constexpr int multicast() const { return (byte_ >> kMulticastAt) - 1; }

 private:
  static constexpr std::uint8_t kSum = 1;
  static constexpr int kMulticastAt = 1;
  static_assert((schedule::kMaxWrites << kMulticastAt) < 1 << 8);
  std::uint8_t byte_;
};

struct alignas(kTableAlignment) DeviceAfter {
  std::uint32_t lane;  // of the plan
  std::uint32_t step;
  std::uint32_t steps;  // of that lane
};

// A lane. Its table lies right behind it: steps, operands, afters, numbers of the rank's ends that it fills, of those it
// empties, and of the readers of those it fills; then, for each end that it fills, which of these readers is its first.
struct alignas(kTableAlignment) DeviceLane {
  std::uint32_t steps, operands, afters, fills, empties, readers;
  std::uint32_t chunks;
  std::uint32_t channel;
  bool awaited;  // one of its steps is awaited
};

// The most sources and destinations of one step. A step reads each operand once. It writes each operand once, but a post
// by packets or lines once for each reader.
inline constexpr std::uint32_t kMoveSources = 64;
inline constexpr std::uint32_t kMoveDestinations = 80;

// A strided operand of a reduction is moved in parts of so many bytes (staging.h); a multiple of a vector.
inline constexpr std::uint32_t kStagedBytes = 16 * 1024;

// The lanes follow the plan in memory, each with its table and all with the same length (DeviceWork::lane_vectors), so
// that none of these must be read to find another.
struct alignas(kTableAlignment) DevicePlan {
  std::byte* scratch;
  std::byte* staging;  // for each lane in turn: kStagedBytes for each of `staged` operands
  std::uint64_t staged;
  const schedule::Strided* input_strided;  // null: dense. Otherwise operand offsets count packed bytes.
  const schedule::Strided* output_strided;
  std::uint64_t scratch_bytes;  // of one channel
  std::uint64_t chunk_bytes;
  std::uint64_t signature, call, count;  // for the recorder
  std::uint32_t lane_count;
  std::uint32_t slot_packets;  // line protocol: of a slot, behind the one with its header
  std::int32_t divisor;
  std::uint16_t reducer;  // ReducerOf
  std::uint8_t element_bytes;
  ring::Protocol protocol;
  bool whole_scratch;
};

// A plan whose steps name other ranks' buffers (peer_memory.h) has one lane. The thread blocks divide themselves among
// its steps: block b takes part in step b modulo their number.
inline constexpr std::uint32_t kMostLaunchedTogether = 64;  // ranks
inline constexpr std::size_t kPeerStepsAt = sizeof(DevicePlan) + sizeof(DeviceLane);
// One step with an operand of each rank's input and output, or one step of two operands for each rank.
inline constexpr std::uint32_t kPeerPlanVectors =
    (kPeerStepsAt + kMostLaunchedTogether * (sizeof(DeviceStep) + 2 * sizeof(DeviceOperand))) / kTableAlignment;

// A GPU's reports to the host, in pinned memory. A checksum validates each entry, because ordering the stores would
// cost a trip over PCIe.
inline constexpr std::uint32_t kProgressEntries = 64;
struct DeviceCall {
  std::uint64_t index;  // 1, 2, ...
  std::uint64_t sequence, digest;
  std::uint64_t signature, call, count;
  std::uint64_t site;   // by number; 0: unknown
  std::uint64_t check;  // CheckOf
};
constexpr std::uint64_t CheckOf(const DeviceCall& c) {
  return ring::Mix(
      c.index ^ ring::Mix(c.sequence ^
                          ring::Mix(c.digest ^ ring::Mix(c.signature ^
                                                         ring::Mix(c.call ^ ring::Mix(c.count ^ ring::Mix(c.site)))))));
}

// Slot contents that no honest rank writes. `forged`: a reference to memory that the peer never shared.
enum class DeviceFaultKind : std::uint32_t { none, foreign, length, forged };
struct DeviceProgress {
  DeviceCall calls[kProgressEntries];  // by index modulo kProgressEntries
  std::uint32_t fault_kind;            // DeviceFaultKind, written last
  std::int32_t fault_peer;
  std::uint64_t fault_expected, fault_got;
};

// Operations that run in order: a rank's collectives, or its messages to or from one peer.
struct DeviceQueue {
  std::uint64_t sequence;  // operations done
  std::uint64_t digest;    // of these operations (NextDigest)
  std::uint32_t arrived;   // blocks' arrivals after each operation, summed over the launch
  std::uint32_t finished;  // blocks that have finished the launch
  std::uint32_t failed;    // one of them was stopped
  std::uint64_t lanes;     // of which it keeps the progress; 0: no lane of its operations waits for another one
};

// Memory that a rank shares with the others, as this rank's GPU reaches it: a part of a window, or a registered buffer.
struct alignas(kTableAlignment) DeviceWindow {
  const std::byte* begin;
  std::uint64_t bytes;
};
inline constexpr std::uint32_t kDeviceWindows = 256;  // rows of a rank's table, with an entry for each rank

// Values of DeviceRank::abort, which the host writes.
inline constexpr std::uint32_t kStopKernels = 1;     // nothing waits any more
inline constexpr std::uint32_t kReleaseKernels = 2;  // nor holds its stream

// One rank of one communicator.
struct DeviceRank {
  cuda_transport::DeviceFillEnd* fills;
  cuda_transport::DeviceEmptyEnd* empties;
  const cuda_transport::DeviceReader* readers;  // of all fill ends
  DeviceQueue* queues;          // collectives, sends by peer, receives by peer
  const DeviceWindow* windows;  // by window * nranks + rank; 0 bytes where there is none
  const std::uint32_t* abort;   // pinned: 0, kStopKernels or kReleaseKernels
  std::uint64_t* done;          // pinned: operations done, by queue
  DeviceProgress* progress;     // pinned
  std::uint64_t calls;          // begun on all queues
  std::uint32_t stop;           // every block of this rank may stop
  std::uint32_t halted;         // a launch has ended because it stopped: later ones tell nothing
  std::int32_t nranks;
  bool wide;         // not all ranks are on this GPU
  bool one_process;  // all ranks are in it, so that a slot's pointer is valid here
  bool holds;        // a failed launch goes on until it is released, so that nothing behind it takes its data for a result
  std::uint32_t signalling;       // 1: a block changes counts of signals
  std::uint64_t signal_launches;  // of those that the host counts, how many have ended
};

// One operation of one rank.
struct DeviceWork {
  const DevicePlan* plan;
  const std::byte* input;
  std::byte* output;
  const void* scalar_source;              // read when the operation runs, if not null
  std::uint64_t scalar;                   // one element's bytes
  std::uint64_t place;  // what ranks must have in common besides the plan (copy_engines.h); 0: nothing
  std::uint64_t input_base, output_base;  // reference that slots carry instead of data: an address or window offset
  std::uint16_t input_window, output_window;
  std::uint8_t input_kind, output_kind;  // SlotKind
  bool scaled;
  bool one_launch;             // its steps name other ranks' buffers
  std::uint32_t lane_vectors;  // of each of the plan's lanes with its table
  std::uint32_t site;          // for the recorder: where it was called, by number
};

// The collectives of a launch come first, in the order of the ranks.
struct DeviceWorkQueue {
  DeviceRank* rank;
  DeviceQueue* queue;
  std::uint64_t* lanes;               // progress of this queue's lanes
  std::uint32_t first_block, blocks;  // collectives: the most lanes of any of the works; messages: as many or fewer
  std::uint32_t first_work, works;
};

// A kernel's parameter, passed by value, at most 4 KiB. Entries that do not fit lie in pinned memory.
inline constexpr std::uint32_t kInlineQueues = 16;
inline constexpr std::uint32_t kInlineWorks = 32;
struct DeviceLaunch {
  const DeviceWorkQueue* more_queues;  // if not null, instead of the ones below
  const DeviceWork* more_works;
  std::uint32_t queue_count;  // 0: nothing to do
  std::uint32_t collectives;  // of the queues: one for each rank
  std::uint32_t blocks_each;  // of every queue; 0: they differ
  DeviceWorkQueue queues[kInlineQueues];
  DeviceWork works[kInlineWorks];
};
static_assert(sizeof(DeviceLaunch) <= 4096);

inline constexpr char kInterpreterName[] = "tutti_interpret";

// One signal sent, or several of one number awaited (signals.h).
struct SignalWork {
  std::uint64_t* counter;   // sent: in the peer's memory; awaited: in this rank's
  std::uint64_t* own;       // how many this rank has sent, or taken
  std::uint64_t* sequence;  // of this rank's one-sided operations with that peer
  std::uint64_t* done;      // pinned: the last of them that is done
  std::uint64_t amount;     // awaited
  std::uint64_t call;       // of a wait, as reported to the host
  bool waits;
};
inline constexpr std::uint32_t kMostSignals = 64;
// A kernel's parameter, as DeviceLaunch.
struct SignalLaunch {
  DeviceRank* rank;
  std::uint64_t* ended;  // pinned, for DeviceRank::signal_launches; null: the host does not count this launch
  std::uint32_t count;
  SignalWork works[kMostSignals];
};
inline constexpr char kSignalsName[] = "tutti_signals";
// Threads of a block, and blocks that share a multiprocessor. Each thread has 128 registers, which the loops need to
// keep enough loads in flight. With larger blocks, a block that only publishes references would occupy a whole
// multiprocessor.
inline constexpr std::uint32_t kMaxThreads = 256;
inline constexpr std::uint32_t kBlocksPerMultiprocessor = 2;

}  // namespace tutti::cuda_kernels
