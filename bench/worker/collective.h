// The measurable collectives: their names, the elements on each side, the buffer positions of calls in place, the
// required output, and the conversion of times to bandwidths.
//
// Vocabulary: `count` is the count argument of the C API, so for block collectives (reduce-scatter, all-gather,
// all-to-all, gather, scatter) it is one block. `bytes` is what the user requests on the command line: the size of the
// LARGER side of one rank, as in nccl-tests. Pure functions on value types; thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "base/collectives/collective.h"
#include "tutti/tutti.h"

namespace tutti::bench {

// Those of the library that take part in a comparison, and two more ways to call it.
enum class Collective {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  all_to_all_v,
  broadcast,
  reduce,
  gather,
  scatter,
  send_recv,
  barrier
};
inline constexpr int kCollectives = static_cast<int>(Collective::barrier) + 1;

std::string_view NameOf(Collective collective);
// The same names without underscores, too, as nccl-tests has them: "alltoall", "sendrecv".
std::optional<Collective> CollectiveNamed(std::string_view name);
// Which data go where. Of send_recv: each rank's buffer to the next rank.
const Pattern& PatternOf(Collective collective);
inline bool Reduces(Collective collective) { return PatternOf(collective).reduces; }
inline bool HasRoot(Collective collective) { return PatternOf(collective).has_root(); }
bool CanBeInPlace(Collective collective);

struct Operation {
  Collective collective = Collective::all_reduce;
  tuttiDataType_t type = tuttiFloat32;
  tuttiRedOp_t op = tuttiSum;
  int root = 0;
  std::size_t count = 0;
  bool in_place = false;
};

// The count whose larger side has `bytes`, rounded down to whole elements, but at least one element per block, since an
// empty measurement is useless.
std::size_t CountFor(Collective collective, tuttiDataType_t type, std::size_t bytes, int ranks);
// Bytes of the larger side of one rank.
std::size_t SizeOfLargerSide(const Operation& operation, int ranks);

// Elements of rank `from`'s block for rank `to`. Block sizes differ only in all_to_all_v: 0.5, 1 and 1.5 times `count`, so
// that their average is `count`.
std::size_t BlockElements(const Operation& operation, int from, int to);

// Where one rank's elements are. In place, both offsets point into the single buffer; otherwise both are zero.
struct Layout {
  std::size_t send_elements = 0;
  std::size_t recv_elements = 0;
  std::size_t send_offset = 0;
  std::size_t recv_offset = 0;
};
// REQUIRES: 0 <= rank < ranks; !operation.in_place or CanBeInPlace.
Layout LayoutOf(const Operation& operation, int ranks, int rank);

inline constexpr int kReduced = -1;
// `length` elements of a rank's output from `output` on equal those of `source`'s input (for kReduced, of the reduction
// of all inputs) from `input` on.
struct Segment {
  std::size_t output = 0;
  std::size_t length = 0;
  int source = kReduced;
  std::size_t input = 0;
};
std::vector<Segment> ExpectedOutput(const Operation& operation, int ranks, int rank);

// Bus bandwidth is algorithm bandwidth times this factor: the load on each rank's link, independent of the algorithm.
double BusFactor(Collective collective, int ranks);

}  // namespace tutti::bench
