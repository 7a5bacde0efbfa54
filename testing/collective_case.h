// One call of one collective with inputs whose result is exactly predictable, made on all ranks alike and checked
// against a plain reference: every output element, guard bytes around every buffer, and unchanged inputs.
//
// Thread-safety: value types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "testing/arena.h"
#include "testing/ranks.h"

namespace tutti::testing {

enum class What {
  all_reduce,
  reduce,
  broadcast,
  bcast,
  reduce_scatter,
  all_gather,
  alltoall,
  gather,
  scatter,
  barrier,
  shift,
  all_gather_v,
  reduce_scatter_v,
  alltoall_v
};
inline constexpr int kWhats = static_cast<int>(What::alltoall_v) + 1;
const char* NameOf(What what);

struct Case {
  What what = What::all_reduce;
  tuttiDataType_t type = tuttiFloat32;
  tuttiRedOp_t op = tuttiSum;
  std::size_t count = 0;
  int root = 0;           // shift: how far each message goes
  bool in_place = false;  // where the collective has such a form
  std::uint32_t seed = 0;

  std::string Describe() const;
};

// Runs the case on this rank. Returns an empty string, or what went wrong. `synchronize` waits for the work of
// `stream`; by default tuttiStreamSynchronize.
using Synchronize = std::function<tuttiResult_t(tuttiStream_t)>;
std::string RunCase(const Case& which, int rank, int nranks, tuttiComm_t comm, tuttiStream_t stream, Arena& arena,
                    const Synchronize& synchronize = nullptr);

// The number of elements of this rank's output that RunCase compares.
std::size_t ElementsCompared(const Case& which, int rank, int nranks);

// `how_many` cases, the same on every rank: all collectives in turn; types, operators, counts, roots and places mixed.
// No buffer exceeds `most_bytes`.
std::vector<Case> MixedCases(std::uint32_t seed, int how_many, int nranks, std::size_t most_bytes);

}  // namespace tutti::testing
