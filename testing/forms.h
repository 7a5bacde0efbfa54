// The collectives that each algorithm has a form for on host memory. With an algorithm forced, the selector chooses one
// for the others. The test Description compares the table with the library.
//
// Thread-safety: constants.
#pragma once

#include <map>
#include <set>
#include <string>

#include "testing/collective_case.h"

namespace tutti::testing {

inline const std::map<std::string, std::set<What>>& FormsOfAlgorithms() {
  using enum What;
  static const std::map<std::string, std::set<What>> forms = {
      {"peer_memory", {}},  // of GPUs alone
      {"nvls", {}},
      {"program", {}},
      {"direct", {all_reduce, reduce_scatter, all_gather, alltoall, broadcast, reduce, gather, scatter}},
      {"two_shot", {all_reduce, reduce}},
      {"ring", {all_reduce, reduce_scatter, all_gather, broadcast, reduce}},
      {"double_binary_tree", {all_reduce, broadcast, reduce}},
      {"recursive", {all_reduce, reduce_scatter, all_gather}},
      {"recursive_doubling", {all_reduce}},
      {"bruck", {all_gather, alltoall}},
      {"binomial", {broadcast, reduce, gather, scatter}},
      {"grouped", {all_reduce}},
      {"two_level", {all_reduce, reduce_scatter, all_gather, alltoall, broadcast, reduce}},
      {"two_level_tree", {all_reduce, broadcast, reduce}},
      {"parameter_server", {all_reduce, broadcast, reduce}},
      {"all_to_all_broadcast", {all_reduce}}};
  return forms;
}

// Whether this algorithm runs these calls itself. The v-forms are blocks of other lengths of the same collectives; a
// barrier is an all-reduce of nothing.
inline bool HasForm(const std::string& algorithm, What what) {
  using enum What;
  static const std::map<What, What> same = {{bcast, broadcast},
                                            {all_gather_v, all_gather},
                                            {reduce_scatter_v, reduce_scatter},
                                            {alltoall_v, alltoall},
                                            {barrier, all_reduce}};
  const auto other = same.find(what);
  return FormsOfAlgorithms().at(algorithm).contains(other == same.end() ? what : other->second);
}

}  // namespace tutti::testing
