// The one place that says what each algorithm is and needs. The selector, the simulator and the verifier's tests read it
// here and name no algorithm.
//
// Thread-safety: constants.
#pragma once

#include <array>
#include <limits>
#include <optional>
#include <string_view>

#include "algorithms/builders/build.h"

namespace tutti::builders {

template <typename... Collectives>
constexpr CollectiveSet SetOf(Collectives... collectives) {
  return ((1U << static_cast<unsigned>(collectives)) | ...);
}

// How the ranks' schedules resemble each other (representative_ranks.h).
enum class Symmetry { none, rotation, exchange };

// Where sums are rounded to the data type.
enum class Rounding {
  on_the_way,      // partial sums travel
  once_in_a_node,  // a switch rounds its sum once, in an order of its own; partial sums travel between nodes
  in_rank_order    // once, and every sum is one fixed expression (verify.h, IsDeterministic)
};

// Double binary trees, whose places tell which nodes do alike in an all-reduce (node_classes.h). `symmetry` is then that of
// other collectives.
enum class Trees { none, of_ranks, of_nodes };

// An algorithm is chosen only where these are.
struct Needs {
  bool posts = false;
  bool nodes = false;  // several; if it is forced, it works with one, too
  bool one_launch = false;
  bool a_switch = false;  // that adds between GPUs

  friend bool operator==(const Needs&, const Needs&) = default;
};

struct Record {
  tuttiAlgorithm_t algorithm = tuttiAlgorithmNone;
  std::string_view name;
  // REQUIRES: the collective is in `forms`; 1 < nranks <= most_ranks. Null: the schedules come from a file (program.h).
  Schedule (*build)(const ScheduleRequest&) = nullptr;
  CollectiveSet forms = 0;

  int most_ranks = std::numeric_limits<int>::max();
  int most_ranks_reducing = std::numeric_limits<int>::max();
  Needs needs = {};
  CollectiveSet across_switches = 0;  // forms for ranks at several switches

  Symmetry symmetry = Symmetry::none;  // where there is no root
  Trees trees = Trees::none;
  CollectiveSet nodes_differ = 0;  // forms in which no two nodes do alike, whatever `symmetry` says for prices
  Rounding rounding = Rounding::on_the_way;
  // Forms in which blocks pass through third ranks: they must all have one length, so there is no pairwise form.
  CollectiveSet passes_blocks_on = 0;
  bool follows_rings = false;  // its channels go around RankLayout::rings, each around its own
  bool baseline = false;       // only for comparison: never chosen unless forced
  bool one_lane_safe = true;   // Schedule::one_lane_safe
  // Why pricing it would take longer than it could ever save: it is then never chosen unless forced. "": it would not.
  std::string_view (*too_long_to_price)(Collective collective, int nranks) = nullptr;

  bool from_file() const { return build == nullptr && algorithm != tuttiAlgorithmNone; }
  // Whether its form of the collective uses rank layouts.
  bool arranges(Collective collective) const {
    return follows_rings || needs.nodes || Has(across_switches, collective);
  }
  Symmetry SymmetryIn(Collective collective) const {
    const bool by_trees = trees != Trees::none && collective == Collective::all_reduce;
    return HasRoot(collective) || by_trees ? Symmetry::none : symmetry;
  }
};

// REQUIRES: an algorithm that tutti.h lists, or tuttiAlgorithmNone.
const Record& RecordOf(tuttiAlgorithm_t algorithm);

// The algorithm whose schedules come from files.
inline constexpr tuttiAlgorithm_t kFromFiles = tuttiAlgorithmProgram;

constexpr auto MakeAllAlgorithms() {
  std::array<tuttiAlgorithm_t, tuttiNumAlgorithms - 1> all{};
  for (int i = 0; i < tuttiNumAlgorithms - 1; ++i)
    all[static_cast<std::size_t>(i)] = static_cast<tuttiAlgorithm_t>(i + 1);
  return all;
}
// In the order of tutti.h.
inline constexpr auto kAllAlgorithms = MakeAllAlgorithms();

// "direct", "two_shot", "ring", ... and back; "unknown" and nullopt for others.
std::string_view NameOf(tuttiAlgorithm_t algorithm);
std::optional<tuttiAlgorithm_t> AlgorithmFromName(std::string_view name);

}  // namespace tutti::builders
