#include "bench/worker/collective.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/numbers/datatype.h"

namespace tutti::bench {
namespace {

constexpr std::array<std::string_view, kCollectives> kNames = {
    "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "all_to_all_v", "broadcast",
    "reduce",     "gather",         "scatter",    "send_recv",  "barrier"};

// Elements before block `to` in rank `from`'s input (rows), or before block `from` in rank `to`'s output (columns).
std::size_t SendDisplacement(const Operation& operation, int from, int to) {
  std::size_t sum = 0;
  for (int peer = 0; peer < to; ++peer) sum += BlockElements(operation, from, peer);
  return sum;
}

std::size_t RecvDisplacement(const Operation& operation, int from, int to) {
  std::size_t sum = 0;
  for (int peer = 0; peer < from; ++peer) sum += BlockElements(operation, peer, to);
  return sum;
}

}  // namespace

std::string_view NameOf(Collective collective) { return kNames[static_cast<std::size_t>(collective)]; }

std::optional<Collective> CollectiveNamed(std::string_view name) {
  // nccl-tests' names.
  if (name == "alltoall") return Collective::all_to_all;
  if (name == "alltoallv") return Collective::all_to_all_v;
  if (name == "sendrecv") return Collective::send_recv;
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<Collective>(found - kNames.begin());
}

bool Reduces(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce_scatter ||
         collective == Collective::reduce;
}

bool HasRoot(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce || collective == Collective::gather ||
         collective == Collective::scatter;
}

bool CanBeInPlace(Collective collective) {
  return collective != Collective::all_to_all_v && collective != Collective::send_recv &&
         collective != Collective::barrier;
}

bool HasBlocks(Collective collective) {
  switch (collective) {
    case Collective::reduce_scatter:
    case Collective::all_gather:
    case Collective::all_to_all:
    case Collective::all_to_all_v:
    case Collective::gather:
    case Collective::scatter: return true;
    default: return false;
  }
}

std::size_t CountFor(Collective collective, tuttiDataType_t type, std::size_t bytes, int ranks) {
  if (collective == Collective::barrier || bytes == 0) return 0;
  const std::size_t blocks = HasBlocks(collective) ? static_cast<std::size_t>(ranks) : 1;
  return std::max<std::size_t>(1, bytes / SizeOf(type) / blocks);
}

std::size_t SizeOfLargerSide(const Operation& operation, int ranks) {
  if (operation.collective == Collective::barrier) return 0;
  const std::size_t blocks = HasBlocks(operation.collective) ? static_cast<std::size_t>(ranks) : 1;
  return operation.count * blocks * SizeOf(operation.type);
}

std::size_t BlockElements(const Operation& operation, int from, int to) {
  if (operation.collective != Collective::all_to_all_v) return operation.count;
  return operation.count * static_cast<std::size_t>(1 + (from + to) % 3) / 2;
}

Layout LayoutOf(const Operation& operation, int ranks, int rank) {
  const std::size_t count = operation.count;
  const std::size_t all = count * static_cast<std::size_t>(ranks);
  const bool is_root = rank == operation.root;
  const std::size_t own = operation.in_place ? count * static_cast<std::size_t>(rank) : 0;
  switch (operation.collective) {
    case Collective::all_reduce:
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::send_recv: return {count, count, 0, 0};
    case Collective::reduce_scatter: return {all, count, 0, own};
    case Collective::all_gather: return {count, all, own, 0};
    case Collective::all_to_all: return {all, all, 0, 0};
    case Collective::all_to_all_v:
      return {SendDisplacement(operation, rank, ranks), RecvDisplacement(operation, ranks, rank), 0, 0};
    case Collective::gather: return {count, is_root ? all : 0, is_root ? own : 0, 0};
    case Collective::scatter: return {is_root ? all : 0, count, 0, is_root ? own : 0};
    case Collective::barrier: return {};
  }
  return {};
}

std::vector<Segment> ExpectedOutput(const Operation& operation, int ranks, int rank) {
  const std::size_t count = operation.count;
  const std::size_t own = count * static_cast<std::size_t>(rank);
  const bool is_root = rank == operation.root;
  std::vector<Segment> segments;
  switch (operation.collective) {
    case Collective::all_reduce: return {{0, count, kReduced, 0}};
    case Collective::reduce:
      if (is_root) segments.push_back({0, count, kReduced, 0});
      return segments;
    case Collective::reduce_scatter: return {{0, count, kReduced, own}};
    case Collective::broadcast: return {{0, count, operation.root, 0}};
    case Collective::scatter: return {{0, count, operation.root, own}};
    case Collective::send_recv: return {{0, count, (rank + ranks - 1) % ranks, 0}};
    case Collective::gather:
      if (!is_root) return segments;
      [[fallthrough]];
    case Collective::all_gather:
      for (int peer = 0; peer < ranks; ++peer) {
        segments.push_back({count * static_cast<std::size_t>(peer), count, peer, 0});
      }
      return segments;
    case Collective::all_to_all:
    case Collective::all_to_all_v:
      for (int peer = 0; peer < ranks; ++peer) {
        segments.push_back({RecvDisplacement(operation, peer, rank), BlockElements(operation, peer, rank), peer,
                            SendDisplacement(operation, peer, rank)});
      }
      return segments;
    case Collective::barrier: return segments;
  }
  return segments;
}

double BusFactor(Collective collective, int ranks) {
  const double n = ranks;
  switch (collective) {
    case Collective::all_reduce: return 2 * (n - 1) / n;
    case Collective::reduce_scatter:
    case Collective::all_gather:
    case Collective::all_to_all:
    case Collective::all_to_all_v:
    case Collective::gather:
    case Collective::scatter: return (n - 1) / n;
    default: return 1;
  }
}

}  // namespace tutti::bench
