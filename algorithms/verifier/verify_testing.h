// Helpers for tests of schedules: all ranks' schedules at once, and rank layouts to try.
//
// Thread-safety: pure functions.
#pragma once

#include <array>
#include <vector>

#include "algorithms/builders/build.h"

namespace tutti::verifier {

// Proving every number of ranks takes a minute without optimisation or under a sanitizer; there only edges are proved.
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
inline constexpr bool kEveryRankCount = true;
#else
inline constexpr bool kEveryRankCount = false;
#endif

// `request` as every rank asks it.
inline std::vector<Schedule> BuildEverywhere(tuttiAlgorithm_t algorithm, builders::ScheduleRequest request) {
  std::vector<Schedule> ranks;
  for (request.rank = 0; request.rank < request.nranks; ++request.rank) {
    ranks.push_back(*builders::Build(algorithm, request));
  }
  return ranks;
}

// A way to put any number of ranks on nodes.
struct NodeLayout {
  const char* name;
  RankLayout (*arrange)(int nranks);
};

// Nodes of these sizes, repeated.
template <std::size_t kSizes>
RankLayout ArrangeBySizes(int nranks, const std::array<int, kSizes>& sizes) {
  std::vector<int> labels;
  for (int node = 0; std::ssize(labels) < nranks; ++node) labels.insert(labels.end(), sizes[node % kSizes], node);
  labels.resize(static_cast<std::size_t>(nranks));
  return ArrangeByNode(labels);
}

inline const std::array kNodeLayouts = {
    NodeLayout{"nodes_of_four", [](int n) { return ArrangeBySizes(n, std::array{4}); }},
    NodeLayout{"nodes_of_3_and_5",
               [](int n) {
                 return ArrangeBySizes(n, std::array{3, 5});
               }},
    NodeLayout{"nodes_of_1_4_and_2",
               [](int n) {
                 return ArrangeBySizes(n, std::array{1, 4, 2});
               }},
    NodeLayout{"three_nodes_round_robin",
               [](int n) {
                 std::vector<int> labels;
                 for (int rank = 0; rank < n; ++rank) labels.push_back(rank % 3);
                 return ArrangeByNode(labels);
               }},
    // For algorithms that go round rings: backwards, and every other rank first.
    NodeLayout{"two_rings",
               [](int n) {
                 RankLayout rank_layout = ArrangeEvenly(n, (n + 1) / 2);
                 rank_layout.rings.resize(2);
                 for (int rank = n - 1; rank >= 0; --rank) rank_layout.rings[0].push_back(rank);
                 for (const int parity : {0, 1}) {
                   for (int rank = parity; rank < n; rank += 2) rank_layout.rings[1].push_back(rank);
                 }
                 return rank_layout;
               }},
};

}  // namespace tutti::verifier
