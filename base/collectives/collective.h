// The table of collectives, and of the other calls that move data. A new one is an enumerator and a record here, its
// function in tutti.h and src/api, and forms of algorithms (algorithms/builders/records.h). Planning, verifying, pricing
// and measuring read the record.
//
// Thread-safety: constants and pure functions.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tutti {

enum class Collective : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  broadcast,
  reduce,
  gather,
  scatter,
  barrier,
  send,
  receive,
  put,  // the peer takes no part in these three
  signal,
  wait_signal,
};
inline constexpr std::size_t kCollectiveCount = static_cast<std::size_t>(Collective::wait_signal) + 1;

// The content of a rank's input or output.
enum class Part : std::uint8_t {
  nothing,
  whole,  // a buffer without blocks of ranks
  own,    // the rank's block
  all,    // every rank's block
};

struct Side {
  Part part = Part::nothing;
  bool of_root = false;  // only the root has it
};

struct Pattern {
  Side input = {}, output = {};
  bool reduces = false;

  constexpr bool has_root() const { return input.of_root || output.of_root; }
  constexpr bool has_blocks_of_ranks() const { return input.part >= Part::own || output.part >= Part::own; }
  // Each rank has a block for each rank.
  constexpr bool has_blocks_of_pairs() const { return input.part == Part::all && output.part == Part::all; }
  // Every rank gets the sum of whole buffers.
  constexpr bool reduces_for_all() const { return reduces && !has_root() && !has_blocks_of_ranks(); }
  // Bytes that must pass each rank's link, as a part of the larger side's.
  constexpr double bus_factor(int nranks) const {
    const double others = (nranks - 1.0) / nranks;
    return reduces_for_all() ? 2 * others : has_blocks_of_ranks() ? others : 1;
  }
};

enum class CallKind : std::uint8_t {
  scheduled,  // by an algorithm
  barrier,    // built from a scheduled one
  message,    // one step between two ranks
  one_sided,  // no schedule
};

struct CollectiveRecord {
  Collective collective;
  std::string_view name;
  Pattern pattern = {};
  const char* count_name = "count";  // in tutti.h
  CallKind kind = CallKind::scheduled;
};

inline constexpr bool kOfRoot = true, kReduces = true;
inline constexpr std::array<CollectiveRecord, kCollectiveCount> kCollectives = {{
    {Collective::all_reduce, "all_reduce", {{Part::whole}, {Part::whole}, kReduces}},
    {Collective::reduce_scatter, "reduce_scatter", {{Part::all}, {Part::own}, kReduces}, "recvcount"},
    {Collective::all_gather, "all_gather", {{Part::own}, {Part::all}}, "sendcount"},
    {Collective::all_to_all, "all_to_all", {{Part::all}, {Part::all}}},
    {Collective::broadcast, "broadcast", {{Part::whole, kOfRoot}, {Part::whole}}},
    {Collective::reduce, "reduce", {{Part::whole}, {Part::whole, kOfRoot}, kReduces}},
    {Collective::gather, "gather", {{Part::own}, {Part::all, kOfRoot}}},
    {Collective::scatter, "scatter", {{Part::all, kOfRoot}, {Part::own}}},
    {Collective::barrier, "barrier", {}, "", CallKind::barrier},
    {Collective::send, "send", {{Part::whole}, {}}, "count", CallKind::message},
    {Collective::receive, "receive", {{}, {Part::whole}}, "count", CallKind::message},
    {Collective::put, "put", {{Part::whole}, {}}, "count", CallKind::one_sided},
    {Collective::signal, "signal", {}, "", CallKind::one_sided},
    {Collective::wait_signal, "wait_signal", {}, "", CallKind::one_sided},
}};

constexpr bool CollectivesAreInOrder() {
  for (std::size_t i = 0; i < kCollectives.size(); ++i) {
    if (kCollectives[i].collective != static_cast<Collective>(i)) return false;
    if (i > 0 && kCollectives[i].kind < kCollectives[i - 1].kind) return false;
  }
  return true;
}
static_assert(CollectivesAreInOrder(),
              "each collective has its record, at its number, and the scheduled ones are first");

// The record for a value that is no collective: a peer's memory may hold any byte.
inline constexpr CollectiveRecord kUnknownCollective{Collective{}, "unknown", {}, "", CallKind::one_sided};

constexpr const CollectiveRecord& RecordOf(Collective collective) {
  const auto index = static_cast<std::size_t>(collective);
  return index < kCollectives.size() ? kCollectives[index] : kUnknownCollective;
}
constexpr std::string_view NameOf(Collective collective) { return RecordOf(collective).name; }
constexpr const Pattern& PatternOf(Collective collective) { return RecordOf(collective).pattern; }

// One bit each, so that a call that repeats asks in a few instructions.
using CollectiveSet = std::uint32_t;
static_assert(kCollectiveCount <= 32);

constexpr bool Has(CollectiveSet set, Collective collective) {
  const auto number = static_cast<unsigned>(collective);
  return number < kCollectiveCount && (set >> number & 1) != 0;
}
// Those of whose record the fact is true.
template <typename Fact>
constexpr CollectiveSet CollectivesWith(Fact fact) {
  CollectiveSet set = 0;
  for (std::size_t i = 0; i < kCollectives.size(); ++i) set |= (fact(kCollectives[i]) ? 1U : 0U) << i;
  return set;
}
inline constexpr auto kReducingOnes = CollectivesWith([](const auto& record) { return record.pattern.reduces; });
inline constexpr auto kRootedOnes = CollectivesWith([](const auto& record) { return record.pattern.has_root(); });
inline constexpr auto kMessages = CollectivesWith([](const auto& record) { return record.kind == CallKind::message; });
inline constexpr auto kOneSidedOnes =
    CollectivesWith([](const auto& record) { return record.kind == CallKind::one_sided; });

constexpr bool IsReducing(Collective collective) { return Has(kReducingOnes, collective); }
constexpr bool HasRoot(Collective collective) { return Has(kRootedOnes, collective); }
constexpr bool IsMessage(Collective collective) { return Has(kMessages, collective); }
constexpr bool IsOneSided(Collective collective) { return Has(kOneSidedOnes, collective); }
constexpr bool HasBlocksOfRanks(Collective collective) { return PatternOf(collective).has_blocks_of_ranks(); }
constexpr bool HasBlocksOfPairs(Collective collective) { return PatternOf(collective).has_blocks_of_pairs(); }

inline constexpr auto kEveryScheduled =
    CollectivesWith([](const auto& record) { return record.kind == CallKind::scheduled; });
// The first ones.
inline constexpr int kScheduledCollectives = std::popcount(kEveryScheduled);

// Whether the names are equal except for underscores, as programs and files spell them.
constexpr bool SameName(std::string_view one, std::string_view other) {
  std::size_t i = 0, j = 0;
  while (true) {
    while (i < one.size() && one[i] == '_') ++i;
    while (j < other.size() && other[j] == '_') ++j;
    if (i == one.size() || j == other.size()) return i == one.size() && j == other.size();
    if (one[i++] != other[j++]) return false;
  }
}
constexpr std::optional<Collective> ScheduledCollectiveNamed(std::string_view name) {
  for (const auto& record : kCollectives) {
    if (record.kind == CallKind::scheduled && SameName(name, record.name)) return record.collective;
  }
  return std::nullopt;
}

}  // namespace tutti
