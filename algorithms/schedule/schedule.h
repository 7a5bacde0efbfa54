// A collective is a schedule, and a schedule is data: the steps of ONE rank. The executor runs it, the verifier proves
// it, the viewer prints it; none of them contains an algorithm.
//
// Vocabulary
//   block    one of the equal parts (nranks of them, or 1) by which a schedule names data. The launch binds block b to
//            an extent: where it lies in the input and the output, and how long it is.
//   chunk    the k-th piece of EVERY block, at most chunk-size long. A lane runs its steps for chunk 0, then for chunk
//            1, ... Where a block is too short to have a k-th chunk, its steps are skipped - by sender and receiver.
//   channel  an independent share of every block, with its own connections. Channels run side by side.
//   lane     steps that run in order, once for each chunk. Lanes of a channel overlap: one may be chunks ahead of
//            another.
//   slot     one chunk of one block, travelling: to(peer) fills the next slot of the connection to a peer, from(peer)
//            empties the next slot of the connection from it. post fills the next slot that EVERY other rank must read;
//            read as post(writer). Two ranks may have several connections: to(peer, 1) fills the second.
//   team     the ranks, this one included, whose GPUs one switch joins that can add and multiply what passes it (NVLink
//            SHARP; CUDA's word is multicast team). contribution(peer) fills the next slot for a rank of the team. The
//            slot stays in the filler's memory until that rank, perhaps the filler itself, reads `sum`: the next slots
//            that the whole team has filled for it, added by the switch. multicast fills the next slot of every other
//            rank of the team by one store, which the switch multiplies; read as multicast(writer).
//
// A step reads its operands, reduces them in the order given if there are several, and writes the result to every
// destination. Examples (r: this rank):
//   {in[c]} -> {to(next)}                              send
//   {from(prev), in[c]} -> {to(next)}                  receive, reduce, forward
//   {from(parent)} -> {out[c], to(left), to(right)}    broadcast down a tree
//   {in[r], from(0), from(1)} -> {out[r], post}        reduce from all ranks, publish to all ranks
//   {in[r], peer1.in[r]} -> {out[r], peer1.out[r]}     reduce a block of all ranks' buffers, in one launch of all ranks
//   {sum} -> {out[r], multicast}                       a block that the switch reduces, then gives to the team
//
// Rules (the verifier checks them)
//   - in one channel, all steps that fill a given connection are in one lane, and so are all that empty it;
//   - every post is read exactly once by every other rank, every multicast by every other rank of the team;
//   - every contribution is part of exactly one sum; all ranks of a team contribute equally often to each sum;
//   - each rank's contribution reaches each element of the result exactly once, scaled exactly once (see `scaled`), and
//     `final` is applied exactly once, last, to each element of the result;
//   - only schedules that run in one launch name other ranks' buffers;
//   - scratch[b] is one chunk long (whole_scratch: a block); it carries nothing from one chunk to the next;
//   - a step has at most kMaxReads reads and MostWrites writes, and a connection appears in it once.
//
// Thread-safety: value types.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/collectives/collective.h"
#include "tutti/tutti.h"

namespace tutti::schedule {

using tutti::Collective;
using tutti::HasBlocksOfPairs;
using tutti::HasBlocksOfRanks;
using tutti::HasRoot;
using tutti::IsMessage;
using tutti::IsOneSided;
using tutti::IsReducing;
using tutti::kScheduledCollectives;
using tutti::NameOf;

enum class OperandKind : std::uint8_t {
  input,         // block of the user's input
  output,        // block of the user's output
  scratch,       // block of memory that lasts one chunk
  from,          // next slot of the connection from `peer`
  to,            // next slot of the connection to `peer`
  post,          // read: next slot posted by `peer`; written (peer = this rank): next slot for all other ranks
  contribution,  // written: next slot for `peer`, a rank of the team
  sum,           // read: next slots that all ranks of the team contribute to this rank
  multicast,     // as post, among the ranks of the team
};

constexpr bool IsMemory(OperandKind kind) {
  return kind == OperandKind::input || kind == OperandKind::output || kind == OperandKind::scratch;
}
constexpr bool IsSlot(OperandKind kind) { return !IsMemory(kind); }

struct Operand {
  OperandKind kind;
  std::int16_t peer = -1;       // of slots but sums; input, output: whose buffer it is, -1: this rank's
  std::int16_t block = -1;      // input, output, scratch
  bool scaled = false;          // reads of raw contributions: a PreMulSum's scalar is applied here
  std::int16_t connection = 0;  // from, to: which of the connections with that peer

  friend bool operator==(const Operand&, const Operand&) = default;
};

// Wait until `lane` of the same channel has done `step` for the same chunk.
struct After {
  std::int16_t lane;
  std::int16_t step;
  friend bool operator==(const After&, const After&) = default;
};

// The limits that an executor must support in one step.
inline constexpr int kMaxReads = 64;
// Writes: the result, the next node, and the other ranks of a node of eight, with room for some more.
inline constexpr int kMaxWrites = 16;

struct Step {
  std::int16_t block;  // its extent gives the length of this step's data
  std::vector<Operand> reads;
  std::vector<Operand> writes;
  bool final = false;  // the result is the collective's: average's division happens here
  std::vector<After> after = {};
  friend bool operator==(const Step&, const Step&) = default;
};

struct Lane {
  std::vector<Step> steps;
  friend bool operator==(const Lane&, const Lane&) = default;
};

struct Channel {
  std::vector<Lane> lanes;
  friend bool operator==(const Channel&, const Channel&) = default;
};

struct Schedule {
  Collective collective;
  tuttiAlgorithm_t algorithm;  // none: made by hand
  int rank;
  int nranks;
  int root = 0;
  // A multiple of nranks where blocks belong to ranks (HasBlocksOfRanks). Statements about block r below then hold for
  // rank r's parts, blocks r * parts .. r * parts + parts - 1; parts is 1 except in schedules from files. Blocks
  // 0..blocks-1 are in `input` and `output`; the collective decides which of the two buffers has all of them:
  // all_reduce, broadcast, reduce: both. reduce_scatter, scatter (root): input all, output only block `rank`.
  // all_gather, gather (root): input only block `rank`, output all. all_to_all: both have nranks blocks; input[q] goes
  // to rank q, output[q] comes from rank q; blocks q (sent) and nranks + q (received) name their lengths.
  int blocks;
  int scratch_blocks = 0;
  // Every chunk has scratch of its own: memory as long as the blocks, for schedules from files whose lanes read what
  // another lane's next chunk overwrites.
  bool whole_scratch = false;
  // All ranks' parts run in one launch: none begins before all ranks have called, and none's caller goes on before all
  // have ended. Steps may then name other ranks' buffers.
  bool one_launch = false;
  // It writes where other ranks may still read if the call is in place: an executor then first copies the input.
  bool separate_input = false;
  int connections = 1;  // from each rank to each other, in each channel
  std::vector<Channel> channels;
  std::vector<int> team = {};  // ascending; empty: no step contributes or multicasts
  // Whether a slot may carry a reference to this rank's input or output instead of the data, (a) when input and output
  // are different memory, (b) when they are the same. The reader then reads the memory when it empties the slot. The
  // builder sets this, the verifier proves it.
  bool reference_safe = false;
  bool reference_safe_in_place = false;
  // Whether a channel's steps may run as the one lane that InOneLane makes, where each runs once. build.h sets this,
  // the verifier's tests prove it.
  bool one_lane_safe = false;

  int parts() const { return HasBlocksOfRanks(collective) ? blocks / nranks : 1; }
  // The number of pieces that a call's bytes (UniformExtents) are cut into: of a whole buffer, or of one rank's block.
  int pieces() const { return HasBlocksOfRanks(collective) ? parts() : blocks; }
};

// In one launch, a step may write to the buffers of as many ranks as it may read from.
inline int MostWrites(const Schedule& schedule) { return schedule.one_launch ? kMaxReads : kMaxWrites; }

// Operands, spelt as in the examples above.
inline Operand In(int block) { return {OperandKind::input, -1, static_cast<std::int16_t>(block)}; }
inline Operand Scaled(int block) { return {OperandKind::input, -1, static_cast<std::int16_t>(block), true}; }
inline Operand Out(int block) { return {OperandKind::output, -1, static_cast<std::int16_t>(block)}; }
inline Operand Scratch(int block) { return {OperandKind::scratch, -1, static_cast<std::int16_t>(block)}; }
inline Operand From(int peer) { return {OperandKind::from, static_cast<std::int16_t>(peer)}; }
inline Operand To(int peer) { return {OperandKind::to, static_cast<std::int16_t>(peer)}; }
// The same block of another rank's input or output.
inline Operand OfPeer(int peer, Operand memory) {
  memory.peer = static_cast<std::int16_t>(peer);
  return memory;
}
// The same by another connection with that peer.
inline Operand By(int connection, Operand slot) {
  slot.connection = static_cast<std::int16_t>(connection);
  return slot;
}
inline Operand Post(int writer) { return {OperandKind::post, static_cast<std::int16_t>(writer)}; }
inline Operand Contribution(int peer) { return {OperandKind::contribution, static_cast<std::int16_t>(peer)}; }
inline Operand TeamSum() { return {OperandKind::sum}; }
inline Operand Multicast(int writer) { return {OperandKind::multicast, static_cast<std::int16_t>(writer)}; }

// "{in[0], from(1)} -> {out[0], post}".
std::string ToString(const Step& step);
// The whole schedule, one step a line, for people. `algorithm`: its name (builders::NameOf).
std::string ToString(const Schedule& schedule, std::string_view algorithm);

}  // namespace tutti::schedule
