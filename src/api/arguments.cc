#include "src/api/arguments.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <span>

#include "base/error.h"
#include "base/numbers/datatype.h"
#include "src/api/argument_checks.h"

namespace tutti::api {
namespace {

void CheckRank(const char* name, int value, const Caller& caller) {
  if (value < 0 || value >= caller.nranks) {
    Throw(tuttiInvalidArgument, "{} is {}; this communicator has ranks 0 to {}", name, value, caller.nranks - 1);
  }
}

const void* At(const void* base, std::size_t bytes) {
  return base == nullptr ? nullptr : static_cast<const std::byte*>(base) + bytes;
}

plan::Operation Make(schedule::Collective collective, const Buffers& buffers) {
  plan::Operation operation;
  operation.collective = collective;
  operation.input = buffers.send;
  operation.output = buffers.receive;
  operation.count = buffers.count;
  operation.type = buffers.type;
  return operation;
}

std::span<const std::size_t> CheckArray(const char* name, const std::size_t* array, const Caller& caller) {
  if (array == nullptr) Throw(tuttiInvalidArgument, "{} is NULL; it must hold {} numbers", name, caller.nranks);
  return {array, static_cast<std::size_t>(caller.nranks)};
}

std::vector<std::size_t> ToVector(std::span<const std::size_t> numbers) { return {numbers.begin(), numbers.end()}; }

// Bytes from the buffer's start to the end of the last block.
std::size_t CheckedEnd(const char* counts_name, std::span<const std::size_t> counts, const char* places_name,
                       std::span<const std::size_t> places, tuttiDataType_t type) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto bytes = CheckedBytes(counts_name, counts[i], 1, type);
    const auto begin = CheckedBytes(places_name, places[i], 1, type);
    if (bytes != 0) end = std::max(end, begin + bytes);
  }
  return end;
}

void CheckDisjoint(const char* counts_name, std::span<const std::size_t> counts, std::span<const std::size_t> places) {
  std::vector<std::size_t> order(counts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return places[a] < places[b]; });
  std::size_t end = 0, last = 0;
  for (const auto i : order) {
    if (counts[i] == 0) continue;
    if (places[i] < end) {
      Throw(tuttiInvalidArgument, "{}: the blocks of ranks {} and {} overlap in recvbuff", counts_name, last, i);
    }
    end = places[i] + counts[i];
    last = i;
  }
}

std::vector<Range> BlocksOf(const void* base, std::span<const std::size_t> counts, std::span<const std::size_t> places,
                            tuttiDataType_t type) {
  std::vector<Range> blocks;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] != 0) blocks.push_back({At(base, places[i] * SizeOf(type)), counts[i] * SizeOf(type)});
  }
  return blocks;
}

// For buffers whose blocks lie apart: the blocks must not overlap, but one may lie in a gap between others.
// REQUIRES: the blocks to receive are disjoint.
void CheckBlocksApart(std::span<const Range> sends, std::vector<Range> receives) {
  const auto begin_of = [](const Range& range) { return reinterpret_cast<std::uintptr_t>(range.begin); };
  std::ranges::sort(receives, {}, begin_of);
  for (const auto& send : sends) {
    // Of disjoint blocks, only the last one that begins before the end of this one can reach its end.
    const auto after = std::ranges::lower_bound(receives, begin_of(send) + send.bytes, {}, begin_of);
    if (after != receives.begin() && Overlap(send, *std::prev(after))) RefuseOverlap(send, *std::prev(after));
  }
}

}  // namespace

plan::Operation CheckedCollective(const Caller& caller, const plan::PlainCall& call) {
  const CollectiveRecord& record = RecordOf(call.collective);
  const Pattern& pattern = record.pattern;
  if (pattern.has_root()) CheckRank("root", call.root, caller);
  CheckType(call.type);
  if (pattern.reduces) CheckOp(call.op);
  const auto holds_all = [](const Side& side) { return side.part == Part::all; };
  const auto blocks =
      holds_all(pattern.input) || holds_all(pattern.output) ? static_cast<std::size_t>(caller.nranks) : 1;
  const auto all = CheckedBytes(record.count_name, call.count, blocks, call.type);
  const auto has = [&](const Side& side) { return !side.of_root || caller.rank == call.root; };
  const Range send{has(pattern.input) ? call.input : nullptr, holds_all(pattern.input) ? all : all / blocks};
  const Range receive{has(pattern.output) ? call.output : nullptr, holds_all(pattern.output) ? all : all / blocks};
  if (has(pattern.input)) CheckPointer("sendbuff", send.begin, send.bytes, call.type);
  if (has(pattern.output)) CheckPointer("recvbuff", receive.begin, receive.bytes, call.type);
  auto operation =
      Make(call.collective, {send.begin, has(pattern.output) ? call.output : nullptr, call.count, call.type});
  if (pattern.reduces) operation.op = call.op;
  if (pattern.has_root()) operation.root = call.root;
  if (!has(pattern.input) || !has(pattern.output)) return operation;
  // In place, the rank's own block lies where it has its place among all.
  const auto own_in = [&](const Side& side, const Side& other) {
    return holds_all(side) && other.part == Part::own ? static_cast<std::size_t>(caller.rank) * (all / blocks) : 0;
  };
  operation.in_place = CheckOverlap(send, receive, At(send.begin, own_in(pattern.input, pattern.output)),
                                    At(receive.begin, own_in(pattern.output, pattern.input)));
  return operation;
}

plan::Operation CheckedSend(const Caller& caller, const Buffers& buffers, int peer) {
  CheckRank("peer", peer, caller);
  CheckType(buffers.type);
  CheckPointer("sendbuff", buffers.send, CheckedBytes("count", buffers.count, 1, buffers.type), buffers.type);
  auto operation = Make(schedule::Collective::send, {buffers.send, nullptr, buffers.count, buffers.type});
  operation.root = peer;
  return operation;
}

plan::Operation CheckedReceive(const Caller& caller, const Buffers& buffers, int peer) {
  CheckRank("peer", peer, caller);
  CheckType(buffers.type);
  CheckPointer("recvbuff", buffers.receive, CheckedBytes("count", buffers.count, 1, buffers.type), buffers.type);
  auto operation = Make(schedule::Collective::receive, {nullptr, buffers.receive, buffers.count, buffers.type});
  operation.root = peer;
  return operation;
}

plan::Operation CheckedAllGatherV(const Caller& caller, const Buffers& buffers, const std::size_t* counts_array,
                                  const std::size_t* places_array) {
  CheckType(buffers.type);
  const auto counts = CheckArray("recvcounts", counts_array, caller);
  const auto places = CheckArray("recvdispls", places_array, caller);
  const auto mine = counts[static_cast<std::size_t>(caller.rank)];
  if (mine != buffers.count) {
    Throw(tuttiInvalidArgument, "sendcount is {}, but recvcounts[{}] (this rank's) is {}", buffers.count, caller.rank,
          mine);
  }
  const auto end = CheckedEnd("recvcounts", counts, "recvdispls", places, buffers.type);
  CheckDisjoint("recvcounts", counts, places);
  const auto own = CheckedBytes("sendcount", mine, 1, buffers.type);
  CheckPointer("sendbuff", buffers.send, own, buffers.type);
  CheckPointer("recvbuff", buffers.receive, end, buffers.type);
  auto operation = Make(schedule::Collective::all_gather, buffers);
  operation.count = 0;  // differs between ranks; the counts are compared instead
  operation.vector_counts =
      std::make_shared<plan::VectorCounts>(plan::VectorCounts{ToVector(counts), ToVector(places)});
  const auto* const own_place =
      At(buffers.receive, places[static_cast<std::size_t>(caller.rank)] * SizeOf(buffers.type));
  const Range send{buffers.send, own};
  operation.in_place = buffers.send != nullptr && buffers.send == own_place;
  if (!operation.in_place && Overlap(send, {buffers.receive, end})) {
    CheckBlocksApart({&send, 1}, BlocksOf(buffers.receive, counts, places, buffers.type));
  }
  return operation;
}

plan::Operation CheckedReduceScatterV(const Caller& caller, const Buffers& buffers, const std::size_t* counts_array,
                                      tuttiRedOp_t op) {
  CheckType(buffers.type);
  CheckOp(op);
  const auto counts = CheckArray("recvcounts", counts_array, caller);
  std::vector<std::size_t> places;
  std::size_t total = 0;
  for (const auto count : counts) {
    places.push_back(total);
    total += count;
    CheckedBytes("recvcounts", std::max(count, total), 1, buffers.type);
  }
  const auto own = counts[static_cast<std::size_t>(caller.rank)] * SizeOf(buffers.type);
  const auto all = total * SizeOf(buffers.type);
  CheckPointer("sendbuff", buffers.send, all, buffers.type);
  CheckPointer("recvbuff", buffers.receive, own, buffers.type);
  auto operation = Make(schedule::Collective::reduce_scatter, buffers);
  operation.count = 0;
  operation.op = op;
  operation.vector_counts = std::make_shared<plan::VectorCounts>(plan::VectorCounts{ToVector(counts), places});
  operation.in_place = CheckOverlap(
      {buffers.send, all}, {buffers.receive, own},
      At(buffers.send, places[static_cast<std::size_t>(caller.rank)] * SizeOf(buffers.type)), buffers.receive);
  return operation;
}

plan::Operation CheckedAllToAllV(const Caller& caller, const Buffers& buffers, const std::size_t* send_counts_array,
                                 const std::size_t* send_places_array, const std::size_t* receive_counts_array,
                                 const std::size_t* receive_places_array) {
  CheckType(buffers.type);
  const auto send_counts = CheckArray("sendcounts", send_counts_array, caller);
  const auto send_places = CheckArray("senddispls", send_places_array, caller);
  const auto receive_counts = CheckArray("recvcounts", receive_counts_array, caller);
  const auto receive_places = CheckArray("recvdispls", receive_places_array, caller);
  const auto self = static_cast<std::size_t>(caller.rank);
  if (send_counts[self] != receive_counts[self]) {
    Throw(tuttiInvalidArgument,
          "sendcounts[{0}] is {1}, but recvcounts[{0}] is {2}: both count what this rank sends to itself", self,
          send_counts[self], receive_counts[self]);
  }
  const auto send_end = CheckedEnd("sendcounts", send_counts, "senddispls", send_places, buffers.type);
  const auto receive_end = CheckedEnd("recvcounts", receive_counts, "recvdispls", receive_places, buffers.type);
  CheckDisjoint("recvcounts", receive_counts, receive_places);
  CheckPointer("sendbuff", buffers.send, send_end, buffers.type);
  CheckPointer("recvbuff", buffers.receive, receive_end, buffers.type);
  if (Overlap({buffers.send, send_end}, {buffers.receive, receive_end})) {
    CheckBlocksApart(BlocksOf(buffers.send, send_counts, send_places, buffers.type),
                     BlocksOf(buffers.receive, receive_counts, receive_places, buffers.type));
  }
  auto operation = Make(schedule::Collective::all_to_all, buffers);
  operation.count = 0;
  operation.vector_counts = std::make_shared<plan::VectorCounts>(plan::VectorCounts{
      ToVector(send_counts), ToVector(send_places), ToVector(receive_counts), ToVector(receive_places)});
  return operation;
}

}  // namespace tutti::api
