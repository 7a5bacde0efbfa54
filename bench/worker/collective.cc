#include "bench/worker/collective.h"

#include <algorithm>
#include <array>

#include "base/numbers/datatype.h"

namespace tutti::bench {
namespace {

struct Measured {
  Collective collective;
  std::string_view name;
  Pattern pattern;
  bool can_be_in_place = true;
};

constexpr Measured Like(Collective collective, tutti::Collective library) {
  return {collective, tutti::NameOf(library), tutti::PatternOf(library)};
}

constexpr std::array<Measured, kCollectives> kMeasured = {
    {Like(Collective::all_reduce, tutti::Collective::all_reduce),
     Like(Collective::reduce_scatter, tutti::Collective::reduce_scatter),
     Like(Collective::all_gather, tutti::Collective::all_gather),
     Like(Collective::all_to_all, tutti::Collective::all_to_all),
     {Collective::all_to_all_v, "all_to_all_v", tutti::PatternOf(tutti::Collective::all_to_all), false},
     Like(Collective::broadcast, tutti::Collective::broadcast),
     Like(Collective::reduce, tutti::Collective::reduce),
     Like(Collective::gather, tutti::Collective::gather),
     Like(Collective::scatter, tutti::Collective::scatter),
     {Collective::send_recv, "send_recv", {{Part::whole}, {Part::whole}}, false},
     {Collective::barrier, "barrier", {}, false}}};

constexpr bool InOrder() {
  for (std::size_t i = 0; i < kMeasured.size(); ++i) {
    if (kMeasured[i].collective != static_cast<Collective>(i)) return false;
  }
  return true;
}
static_assert(InOrder(), "each collective has its record, at its number");

const Measured& RecordOf(Collective collective) { return kMeasured[static_cast<std::size_t>(collective)]; }

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

// In counts of the call.
std::size_t BlocksOf(const Side& side, int ranks) {
  if (side.part == Part::nothing) return 0;
  return side.part == Part::all ? static_cast<std::size_t>(ranks) : 1;
}
std::size_t BlocksOfLargerSide(Collective collective, int ranks) {
  const Pattern& pattern = PatternOf(collective);
  return std::max(BlocksOf(pattern.input, ranks), BlocksOf(pattern.output, ranks));
}

}  // namespace

std::string_view NameOf(Collective collective) { return RecordOf(collective).name; }
const Pattern& PatternOf(Collective collective) { return RecordOf(collective).pattern; }
bool CanBeInPlace(Collective collective) { return RecordOf(collective).can_be_in_place; }

std::optional<Collective> CollectiveNamed(std::string_view name) {
  for (const auto& measured : kMeasured) {
    if (SameName(name, measured.name)) return measured.collective;
  }
  return std::nullopt;
}

std::size_t CountFor(Collective collective, tuttiDataType_t type, std::size_t bytes, int ranks) {
  const std::size_t blocks = BlocksOfLargerSide(collective, ranks);
  if (blocks == 0 || bytes == 0) return 0;
  return std::max<std::size_t>(1, bytes / SizeOf(type) / blocks);
}

std::size_t SizeOfLargerSide(const Operation& operation, int ranks) {
  return operation.count * BlocksOfLargerSide(operation.collective, ranks) * SizeOf(operation.type);
}

std::size_t BlockElements(const Operation& operation, int from, int to) {
  if (operation.collective != Collective::all_to_all_v) return operation.count;
  return operation.count * static_cast<std::size_t>(1 + (from + to) % 3) / 2;
}

Layout LayoutOf(const Operation& operation, int ranks, int rank) {
  const auto& [input, output, reduces] = PatternOf(operation.collective);
  const bool is_root = rank == operation.root;
  // Some libraries need a whole buffer on every rank.
  const auto has = [&](const Side& side) { return is_root || !side.of_root || side.part == Part::whole; };
  Layout layout;
  if (has(input)) layout.send_elements = operation.count * BlocksOf(input, ranks);
  if (has(output)) layout.recv_elements = operation.count * BlocksOf(output, ranks);
  if (input.part == Part::all && output.part == Part::all) {
    layout.send_elements = SendDisplacement(operation, rank, ranks);
    layout.recv_elements = RecvDisplacement(operation, ranks, rank);
  }
  if (!operation.in_place || !has(input) || !has(output)) return layout;
  const std::size_t own = operation.count * static_cast<std::size_t>(rank);
  if (input.part == Part::own) layout.send_offset = own;
  if (output.part == Part::own) layout.recv_offset = own;
  return layout;
}

std::vector<Segment> ExpectedOutput(const Operation& operation, int ranks, int rank) {
  const auto& [input, output, reduces] = PatternOf(operation.collective);
  const std::size_t count = operation.count;
  if (output.part == Part::nothing || (output.of_root && rank != operation.root)) return {};
  if (output.part == Part::all) {
    std::vector<Segment> segments;
    for (int peer = 0; peer < ranks; ++peer) {
      segments.push_back({RecvDisplacement(operation, peer, rank), BlockElements(operation, peer, rank), peer,
                          input.part == Part::all ? SendDisplacement(operation, peer, rank) : 0});
    }
    return segments;
  }
  const int source = reduces ? kReduced : input.of_root ? operation.root : (rank + ranks - 1) % ranks;
  return {{0, count, source, output.part == Part::own ? count * static_cast<std::size_t>(rank) : 0}};
}

double BusFactor(Collective collective, int ranks) { return PatternOf(collective).bus_factor(ranks); }

}  // namespace tutti::bench
