// One execution of a plan on one pair of buffers. A run advances: it does every step whose operands are ready and
// returns when nothing can move, so one thread can drive many runs and nothing blocks where it cannot be interrupted.
//
// Thread-safety: different channels of a run may be advanced by different threads; each channel by one thread from
// Start() to its end, because only the thread that streamed a block can fence it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "algorithms/schedule/strided.h"
#include "executors/host/outcome.h"
#include "executors/host/pass.h"
#include "executors/host/plan.h"

namespace tutti::host {

// How peers may reach a buffer of this rank, if at all, instead of receiving copies.
struct RemoteAccess {
  ring::SlotKind kind = ring::SlotKind::value;
  std::uint16_t window = 0;
  std::uint64_t base = 0;  // of the buffer's first byte: an address, or an offset into the window
  std::size_t least = 0;   // bytes; shorter pieces travel in the slot
};

// Where registered windows of peers are mapped in this process.
class WindowMap {
 public:
  virtual ~WindowMap() = default;
  // The address of `bytes` bytes at `offset`; null if `rank` has no such window, or they are not all in it. The
  // arguments may be any numbers.
  virtual const std::byte* Find(int rank, std::uint16_t window, std::uint64_t offset, std::size_t bytes) const = 0;
};

// The arguments that differ from call to call.
struct Launch {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  // Null: dense. Otherwise buffer offsets count packed bytes, and no slot may refer to the buffer.
  const schedule::Strided* input_strided = nullptr;
  const schedule::Strided* output_strided = nullptr;
  std::uint32_t tag = 0;  // OperationTag of this call
  bool scaled = false;    // PreMulSum: multiply contributions by `scalar`
  host_kernels::Scalar scalar;
  bool stream_output = false;  // results are larger than the caches: store past them
  // For ranks of this host.
  RemoteAccess input_access;
  RemoteAccess output_access;
  // Slots to ranks of other hosts may be sent from where the data lies.
  bool send_in_place = false;
  // Slots from ranks of other hosts may land where the call wants the data.
  bool receive_in_place = false;
};

class Run {
 public:
  using Progress = host::Progress;

  // All outlive the run, which is reused for every call of its plan. `network`: see Sleeper.
  Run(const Plan& plan, shm::Fabric& fabric, progress::NetworkEngine* network, const WindowMap& windows);

  // REQUIRES: not running. `bind(launch)` sets what this call differs in from a default Launch; afterwards advance
  // every channel until done.
  template <typename Bind>
  void Start(Bind&& bind) {
    launch_ = Launch{};
    bind(launch_);
    Restart();
  }
  // Runs a call of a plan of one pass. REQUIRES: not running; plan().one_pass(); the buffers are dense, and nothing is
  // scaled.
  Pass& StartPass(const std::byte* input, std::byte* output, std::uint32_t tag) {
    passes_ = true;
    pass_->Start(input, output, tag);
    return *pass_;
  }
  std::size_t channels() const { return states_.size(); }
  // Advances every `stride`-th channel from `first` on, each until it is blocked. Faulted: one of them is.
  Progress Advance(std::size_t first, std::size_t stride);

  // The fault of the first of these channels that has one; of kind `none` if none has.
  const Fault& fault(std::size_t first, std::size_t stride) const;
  // The sum over all calls so far.
  Traffic traffic(std::size_t channel) const;
  const Plan& plan() const { return plan_; }
  // Takes back the memory that slots refer to or land in: afterwards no rank takes data from there for this call's, and none
  // arrives. REQUIRES: the call has failed and the communicator with it, so that a rank which still wants the data finds out
  // why; no thread advances the run.
  void Recall();
  // Ranks that every `stride`-th channel from `first` on waits for now: for their data, or for them to take what was
  // sent. REQUIRES: no other thread advances these channels.
  std::vector<int> WaitsFor(std::size_t first, std::size_t stride) const;

 private:
  struct LaneState {
    std::uint32_t chunk = 0;
    std::uint16_t step = 0;
    std::uint16_t ready_reads = 0;  // leading operands already seen to be ready
    // The operand that blocked the lane: until its slot comes, a poll looks at nothing else. Null: something else did.
    const ring::EmptyEnd* blocked_on = nullptr;
    bool expects = false;  // the network knows where this step's slot should land
  };
  // Channels are advanced by different threads: keep their states on lines of their own.
  struct alignas(ring::kCacheLine) ChannelState {
    std::vector<LaneState> lanes;
    std::vector<std::byte> scratch;
    std::vector<std::byte> fetched;
    bool finished = false;  // every lane
    bool done = false;
    bool streamed = false;  // since the last fence
    bool referred = false;  // some slot refers to this rank's memory
    bool expects = false;   // some slot of another host may land there
    bool borrows = false;   // the step in hand reads memory that a slot refers to
    Fault fault;
    Traffic traffic;
  };
  enum class Outcome : std::uint8_t { blocked, done, faulted };

  void Restart();
  Progress AdvanceChannel(ChannelState& state, const BoundChannel& bound);
  Progress AdvanceLane(ChannelState& state, const BoundChannel& channel, LaneState& lane, const BoundLane& bound);
  Outcome Ready(ChannelState& state, LaneState& lane, const BoundStep& step);
  void ExpectSlots(ChannelState& state, LaneState& lane, const BoundLane& bound);
  bool MayLand(const BoundStep& step, std::size_t bytes, bool early) const;
  Outcome TryStep(ChannelState& state, const BoundChannel& channel, LaneState& lane, const BoundLane& bound,
                  const BoundStep& step);
  // A step's sources, destinations and arithmetic.
  struct Move {
    std::array<const void*, host_kernels::kMaxReduceSources> sources;
    std::array<void*, host_kernels::kMaxReduceDestinations> destinations;
    std::array<const BoundOperand*, host_kernels::kMaxReduceDestinations> written;  // the operands of the destinations
    int source_count = 0;
    int destination_count = 0;
    std::uint32_t streamed = 0;
    std::uint64_t scaled = 0;
    int divisor = 0;
    bool reduces = false;
  };
  void MoveBytes(const Move& move, std::size_t bytes) const;
  // The same for a step with strided memory.
  void MoveStrided(const BoundStep& step, Move move, std::size_t done, std::size_t bytes) const;
  // Null: the operand is dense.
  const schedule::Strided* StridedOf(const BoundOperand& operand) const {
    switch (operand.kind) {
      case schedule::OperandKind::input: return launch_.input_strided;
      case schedule::OperandKind::output: return launch_.output_strided;
      default: return nullptr;
    }
  }
  // kMayRefer: the plan's slots may refer to memory.
  template <bool kMayRefer>
  Outcome Execute(ChannelState& state, const BoundStep& step, std::size_t done, std::size_t bytes);
  void Publish(ChannelState& state, const BoundOperand& write, ring::SlotKind kind, std::size_t bytes);
  bool Source(ChannelState& state, const BoundOperand& operand, std::size_t done, std::size_t bytes,
              const std::byte*& source, std::byte* fetch_to);
  bool SourceElsewhere(ChannelState& state, const BoundOperand& operand, ring::SlotKind kind, std::size_t bytes,
                       const std::byte*& source, std::byte* fetch_to);
  std::byte* Memory(ChannelState& state, const BoundOperand& operand, std::size_t done) const;
  const RemoteAccess* ReferenceFor(const BoundStep& step, std::size_t bytes, const RemoteAccess& input,
                                   const RemoteAccess& output) const;
  bool Recalled(ChannelState& state, const BoundStep& step) const;
  bool Drained(const BoundChannel& channel, bool all) const;
  void AddWaits(std::size_t channel, std::vector<int>& ranks) const;

  const Plan& plan_;
  shm::Fabric& fabric_;
  progress::NetworkEngine* const network_;
  const WindowMap& windows_;
  Launch launch_;
  RemoteAccess input_here_, output_here_;  // as the network engine reaches them
  std::vector<ChannelState> states_;
  std::optional<Pass> pass_;  // plan().one_pass()
  bool passes_ = false;       // the run is a pass, and uses no other state
};

}  // namespace tutti::host
