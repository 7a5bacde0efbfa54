// The symbolic verifier: runs all ranks' schedules on expressions instead of numbers and proves that they do what the
// collective promises, on any machine, in any interleaving.
//
// Proved for the block lengths and slot counts given:
//   - every chunk of every output block is right: each rank's contribution exactly once, scaled exactly once, `final`
//     once and last; or exactly the block that the collective moves there;
//   - no rank waits forever; every send meets a receive of its own length; no slot is left over;
//   - no memory of a rank is read or written by two lanes without an order between them, in place or not;
//   - scratch carries nothing from chunk to chunk, nor from operation to operation;
//   - with by_reference: a rank that reads a slot's memory late still reads what was meant.
//
// Why one run decides. A lane is a sequential process. It waits only for counters that only grow: a connection has one
// lane that fills it and one that empties it, a post one lane that fills it and one per reader, after() waits for
// another lane's progress. So a step that can run stays able to run until it does, whatever the others do (a Kahn
// network, with free slots as messages that travel backwards). Every interleaving makes the same steps, with the same
// values, in the same partial order, and stops at the same place. That place is the end in one run if and only if it is
// in all. Races are looked for in the partial order (vector clocks), not in the interleaving that happened. Waiting for
// a free slot is left out of that order, so that a schedule that is race-free here is so with any number of slots.
//
// Channels share no memory and no connection, and an operation never waits for the next one, so each channel is run by
// itself.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "algorithms/schedule/schedule.h"

namespace tutti::verifier {

// The verifier reads schedules, in their own words.
using namespace schedule;

struct VerifyOptions {
  // Channel c's share of each block, in arbitrary units; c counts modulo the size. One length per block; for all_to_all
  // nranks * blocks of them, [sender * blocks + block]. Empty: every block has one unit.
  std::vector<std::vector<int>> lengths = {};
  int chunk = 1;       // units a chunk
  int slot_depth = 2;  // slots a connection
  int post_depth = 2;
  bool in_place = false;      // REQUIRES for all_to_all: what two ranks send each other has one length
  bool by_reference = false;  // slots refer to memory wherever a schedule with reference_safe lets them
  bool pairwise = false;      // all_to_all_v: an empty block still travels, as an empty slot
  int operations = 1;         // back to back on the same connections
  // A budget for schedules from outside, which can make a proof costly. All proofs that share the budget count it down.
  // A proof that would exceed it, or kMaxProofMemory, is refused. Null: no limit.
  std::int64_t* effort = nullptr;
};

// Bytes that a proof may take for the clocks of steps that other steps wait for. Applies where effort is limited.
inline constexpr std::int64_t kMaxProofMemory = std::int64_t{96} << 20;

// nullopt: proved. Otherwise the first violation: where (rank, channel, lane, step, chunk) and what.
// REQUIRES: one schedule per rank, in order of ranks; lengths of the right size.
std::optional<std::string> Verify(std::span<const Schedule> ranks, const VerifyOptions& options);

// The expression of an output block, e.g. "final((s1 + s2) + s0)" where s1 is rank 1's scaled contribution.
// REQUIRES: the schedules verify; the rank has that output.
std::string OutputExpression(std::span<const Schedule> ranks, int rank, int block);

// Whether every element is the one fixed expression over ranks 0..n-1: all contributions accumulated in rank order,
// rounded once. True for collectives that reduce nothing. REQUIRES: the schedules verify.
bool IsDeterministic(std::span<const Schedule> ranks);

}  // namespace tutti::verifier
