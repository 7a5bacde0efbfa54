// Candidate plans for a call: algorithm x channels x protocol x chunk, and why the other algorithms cannot serve it.
//
// Thread-safety: pure functions and value types.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/builders/build.h"
#include "algorithms/builders/records.h"
#include "algorithms/schedule/protocol_config.h"
#include "selection/cost_model/representative_ranks.h"

namespace tutti::cost_model {

// A class of calls whose plans differ by size alone.
struct Kind {
  schedule::Collective collective = schedule::Collective::all_reduce;
  bool low_precision = false;  // a reduction whose partial sums are rounded when they travel
  bool pairwise = false;       // all_to_all with lengths that only each pair has: one plan for all sizes

  friend bool operator==(const Kind&, const Kind&) = default;
};
// Every kind there is, in a fixed order.
const std::vector<Kind>& AllKinds();
int IndexOf(const Kind& kind);
std::string ToString(const Kind& kind);  // "all_reduce, low precision"

// "all_reduce", "allreduce" and so on. Throws tuttiInvalidArgument for other words, listing the valid ones.
schedule::Collective ParseCollective(std::string_view word);
tuttiAlgorithm_t ParseAlgorithm(std::string_view word);  // "ring"; throws likewise

using AlgorithmSet = std::uint32_t;
static_assert(tuttiNumAlgorithms <= 32);
constexpr AlgorithmSet SetOf(tuttiAlgorithm_t algorithm) { return AlgorithmSet{1} << algorithm; }
inline constexpr AlgorithmSet kAnyAlgorithm = ~AlgorithmSet{0};
constexpr auto FilledWith(AlgorithmSet set) {
  std::array<AlgorithmSet, schedule::kScheduledCollectives> sets{};
  sets.fill(set);
  return sets;
}

// Choices that the user forces; the same on all ranks.
struct Forced {
  std::array<std::optional<tuttiAlgorithm_t>, schedule::kScheduledCollectives> algorithm = {};
  std::array<bool, schedule::kScheduledCollectives> by_name =
      {};                       // the algorithm was forced for this collective by name
  // The algorithms that are left to choose among, one bit each.
  std::array<AlgorithmSet, schedule::kScheduledCollectives> allowed = FilledWith(kAnyAlgorithm);
  int channels = 0;             // 0: free
  int least_channels = 0;       // where they are free; 0: any
  int most_channels = 0;        // likewise
  std::size_t chunk_bytes = 0;  // 0: free
  std::optional<ring::Protocol> protocol;
  std::optional<ring::Protocol> without;  // this protocol, where another one can carry the call
  std::optional<bool> cma;  // ProtocolConfig::cma, wherever a schedule lets slots refer to memory
  bool threads = false;     // TUTTI_THREADS
};

// TUTTI_ALGO: algorithms and collective:algorithm pairs, separated by commas; pairs win. An algorithm alone is ignored
// where it is impossible. In an algorithm's place, "ring+direct" leaves these to choose among, and "^ring+direct" all
// others; either is ignored where nothing would be left. Throws tuttiInvalidArgument if a word is unknown or a pair with
// one algorithm is impossible on `nranks`.
void ParseForcedAlgorithms(const std::string& text, int nranks, Forced& forced);
// TUTTI_PROTO: a protocol, or "^" and one to leave out; "": any. REQUIRES: the setting takes the text.
void ParseForcedProtocol(const std::string& text, Forced& forced);

// Each costs the GPU a thread block for each lane. 24 fill the links of a DGX A100 or H100, and NCCL takes no more there
// (selection/simulator/testdata/systems.csv). A ring on B200, whose links are twice as fast, gains a fifth from 32
// (simulated, 1 GiB).
inline constexpr int kMostGpuChannels = 32;
// Where all ranks are on one GPU, its memory is the bound, not a link. Computed, not measured: at 0.7 us a load and 32
// KiB in flight per block, about a hundred blocks fill an H200's 4.8 TB/s.
inline constexpr int kMostChannelsOfOneGpu = 96;
// A communicator's fabric has at least so many, because two-level trees take four.
inline constexpr int kFewestChannels = 4;

// How many threads of a rank may move data where the user does not say: those for which `ranks` leave `cores` idle. Each has a
// channel of its own.
int ThreadsFor(int cores, int ranks);

// The slots of GPUs, where they are known: which protocols there are, and the data bytes of each; 0: any.
struct GpuSlots {
  bool lines = true;    // false if posts have too many readers for packets
  bool inlines = true;  // likewise, and where the hardware may tear lines of 128 bytes
  std::size_t line = 0;
  std::size_t inlined = 0;
  std::size_t bulk = 0;
  // Bulk slots refer to memory wherever a schedule lets them (MayAlwaysRefer); its chunks then need not fit a slot.
  bool refer = false;
  std::size_t in_switch = 0;   // of the slots that a switch adds and multiplies
  int channels_in_switch = 0;  // of the fabric, that have those; 0: all
};

// The slots that carry messages between GPUs of a host, if they are longer than a slot of lines (GpuSlots::line).
struct MessageSlots {
  int channels = kFewestChannels;  // the most
  ring::Protocol protocol = ring::Protocol::bulk;
  std::size_t capacity = 0;  // bytes
  std::uint32_t depth = 4;   // of a channel
};

// Facts that are the same for all calls of a communicator and on all its ranks.
struct TuningContext {
  int nranks = 1;
  schedule::RankLayout where = {};  // empty: one node
  bool one_host = true;             // every rank can read every post
  bool in_switch = false;           // a switch that adds and multiplies data joins the ranks of each node
  bool one_launch = false;          // all ranks' calls run in one launch (Schedule::one_launch)
  // The nodes of `where` are parts of one host, each with a last-level cache of its own (topology/graph/domains.h).
  bool domains = false;
  int max_channels = 1;
  int most_lanes = 0;  // lanes that one rank's GPU can run at the same time; 0: any number
  std::array<AlgorithmSet, schedule::kScheduledCollectives> without_room = {};  // that need more, in one channel, too
  int threads = 1;  // that move data, on the rank with the most; 0: ranks are GPUs, with an executor for every channel
  std::size_t bulk_capacity = 0;  // bytes
  bool cma = false;               // every rank can read the memory of every other one on its host
  // Results are stored past the caches when the ranks of a last-level cache together touch more than this.
  std::size_t stream_bytes = std::numeric_limits<std::size_t>::max();
  GpuSlots gpu_slots = {};
  MessageSlots messages = {};
  bool deterministic = false;
  Forced forced = {};
  // All ranks' schedules of the programs (program.h) that builders::kFromFiles stands for; null: there is none.
  std::array<const std::vector<schedule::Schedule>*, schedule::kScheduledCollectives> programs = {};

  // The most that share a last-level cache.
  std::size_t ranks_of_a_cache() const;
  builders::ScheduleRequest Ask(schedule::Collective collective) const {
    return {collective, 0, nranks, 0, 1, where.node_of.empty() ? nullptr : &where, one_host};
  }
};

// The most lanes of a unit, but where all ranks' calls run in one launch: those of trees of nodes.
inline constexpr int kMostLanesOfAUnit = 8;
// Fits the conditions to ranks on GPUs, `sharing` of them on one that runs `blocks` thread blocks at the same time.
// `one_gpu`: all ranks share it. REQUIRES: nranks, where and one_host are set.
void FitToGpus(int blocks, int sharing, bool one_gpu, TuningContext& tuning);

// Data bytes of a slot; SIZE_MAX for GPUs whose slots are not known.
std::size_t SlotCapacity(ring::Protocol protocol, const TuningContext& tuning);
// The longest chunk, also for TUTTI_CHUNK: more than any pipeline wants, and within the 32 bits of a slot's length.
inline constexpr std::size_t kLongestChunk = std::size_t{1} << 30;
// Likewise for a chunk. `may_refer`: the schedule may always refer; if slots then do, they need not hold the chunk.
std::size_t ChunkCapacity(ring::Protocol protocol, const TuningContext& tuning, bool may_refer);

struct Candidate {
  tuttiAlgorithm_t algorithm = tuttiAlgorithmNone;
  int channels = 1;  // ScheduleRequest::channels: units (representative_ranks.h)
  schedule::ProtocolConfig config = {};

  friend bool operator==(const Candidate&, const Candidate&) = default;
};

// Returns "" if the algorithm works and keeps the promised guarantees, else a readable reason.
std::string WhyImpossible(tuttiAlgorithm_t algorithm, const Kind& kind, const TuningContext& tuning);
// Likewise, but also returns why the algorithm is not considered: another one is forced, ...
std::string WhyNot(tuttiAlgorithm_t algorithm, const Kind& kind, const TuningContext& tuning);

// How an algorithm that may serve, whose schedules take `unit`, could move a call of `bytes` (BlockBytes). Never empty.
std::vector<Candidate> WaysToMove(tuttiAlgorithm_t algorithm, const Kind& kind, const TuningContext& tuning,
                                  std::size_t bytes, const Unit& unit);
// The channels of a fabric that an algorithm's schedules can have.
int MostChannels(tuttiAlgorithm_t algorithm, const TuningContext& tuning);

// The config itself, or the next one that can carry blocks of `block_bytes` in each of `channels`: a short protocol
// takes whole blocks, or pieces that are multiples of 64 bytes.
schedule::ProtocolConfig Fitting(schedule::ProtocolConfig config, std::size_t block_bytes, int channels);

// Bytes of one of the `pieces` (Schedule::pieces) that a call of `bytes` is cut into. `bytes`: of the buffer for
// all_reduce, broadcast and reduce; otherwise of the largest rank's block.
std::size_t BlockBytes(int pieces, std::size_t bytes);

}  // namespace tutti::cost_model
