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

// Equal-sized buffers, in place if they are the same.
plan::Operation MakeSymmetric(schedule::Collective collective, const Buffers& buffers, std::size_t blocks) {
  CheckType(buffers.type);
  const auto bytes = CheckedBytes("count", buffers.count, blocks, buffers.type);
  CheckPointer("sendbuff", buffers.send, bytes, buffers.type);
  CheckPointer("recvbuff", buffers.receive, bytes, buffers.type);
  auto operation = Make(collective, buffers);
  operation.in_place = CheckOverlap({buffers.send, bytes}, {buffers.receive, bytes}, buffers.send, buffers.receive);
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

// The rooted collectives. Every rank has one block of `buffers.count` elements on one side; on the other side only the
// root has `blocks` of them, and the other ranks' argument is ignored.
plan::Operation MakeRooted(schedule::Collective collective, const Caller& caller, const Buffers& buffers, int root,
                           bool root_receives, std::size_t blocks) {
  CheckRank("root", root, caller);
  CheckType(buffers.type);
  const auto all = CheckedBytes("count", buffers.count, blocks, buffers.type);
  const auto each = all / blocks;
  const bool is_root = caller.rank == root;
  Buffers used = buffers;
  if (!is_root && root_receives) used.receive = nullptr;
  if (!is_root && !root_receives) used.send = nullptr;
  const auto send_bytes = root_receives ? each : all;
  const auto receive_bytes = root_receives ? all : each;
  if (is_root || root_receives) CheckPointer("sendbuff", used.send, send_bytes, used.type);
  if (is_root || !root_receives) CheckPointer("recvbuff", used.receive, receive_bytes, used.type);
  auto operation = Make(collective, used);
  operation.root = root;
  if (!is_root) return operation;
  // In place, the root's own block stays where it is.
  const std::size_t own = blocks == 1 ? 0 : static_cast<std::size_t>(root) * each;
  operation.in_place = CheckOverlap({used.send, send_bytes}, {used.receive, receive_bytes},
                                    At(used.send, root_receives ? 0 : own), At(used.receive, root_receives ? own : 0));
  return operation;
}

}  // namespace

plan::Operation CheckedAllReduce(const Caller&, const Buffers& buffers, tuttiRedOp_t op) {
  auto operation = MakeSymmetric(schedule::Collective::all_reduce, buffers, 1);
  CheckOp(op);
  operation.op = op;
  return operation;
}

plan::Operation CheckedReduce(const Caller& caller, const Buffers& buffers, tuttiRedOp_t op, int root) {
  auto operation = MakeRooted(schedule::Collective::reduce, caller, buffers, root, true, 1);
  CheckOp(op);
  operation.op = op;
  return operation;
}

plan::Operation CheckedBroadcast(const Caller& caller, const Buffers& buffers, int root) {
  return MakeRooted(schedule::Collective::broadcast, caller, buffers, root, false, 1);
}

plan::Operation CheckedReduceScatter(const Caller& caller, const Buffers& buffers, tuttiRedOp_t op) {
  CheckType(buffers.type);
  CheckOp(op);
  const auto n = static_cast<std::size_t>(caller.nranks);
  const auto all = CheckedBytes("recvcount", buffers.count, n, buffers.type);
  CheckPointer("sendbuff", buffers.send, all, buffers.type);
  CheckPointer("recvbuff", buffers.receive, all / n, buffers.type);
  auto operation = Make(schedule::Collective::reduce_scatter, buffers);
  operation.in_place =
      CheckOverlap({buffers.send, all}, {buffers.receive, all / n},
                   At(buffers.send, static_cast<std::size_t>(caller.rank) * (all / n)), buffers.receive);
  operation.op = op;
  return operation;
}

plan::Operation CheckedAllGather(const Caller& caller, const Buffers& buffers) {
  CheckType(buffers.type);
  const auto n = static_cast<std::size_t>(caller.nranks);
  const auto all = CheckedBytes("sendcount", buffers.count, n, buffers.type);
  CheckPointer("sendbuff", buffers.send, all / n, buffers.type);
  CheckPointer("recvbuff", buffers.receive, all, buffers.type);
  auto operation = Make(schedule::Collective::all_gather, buffers);
  operation.in_place = CheckOverlap({buffers.send, all / n}, {buffers.receive, all}, buffers.send,
                                    At(buffers.receive, static_cast<std::size_t>(caller.rank) * (all / n)));
  return operation;
}

plan::Operation CheckedAllToAll(const Caller& caller, const Buffers& buffers) {
  return MakeSymmetric(schedule::Collective::all_to_all, buffers, static_cast<std::size_t>(caller.nranks));
}

plan::Operation CheckedGather(const Caller& caller, const Buffers& buffers, int root) {
  return MakeRooted(schedule::Collective::gather, caller, buffers, root, true, static_cast<std::size_t>(caller.nranks));
}

plan::Operation CheckedScatter(const Caller& caller, const Buffers& buffers, int root) {
  return MakeRooted(schedule::Collective::scatter, caller, buffers, root, false,
                    static_cast<std::size_t>(caller.nranks));
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
