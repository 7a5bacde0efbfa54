// Checked operations besides the all-reduce, a different one each turn, for tests between hosts (host_rank.cc).
//
// Thread-safety: a function without state.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "tutti/tutti.h"

namespace tutti::testing {

// Runs one operation of about `count` elements over all ranks of `comm`, in which this is `rank` of `ranks`. `turn` and
// `salt`, the same on all ranks, choose the operation and its data. If its result is wrong, `wrong` says how.
tuttiResult_t RunOneOfTheMix(tuttiComm_t comm, int rank, int ranks, std::size_t count, long turn, std::size_t salt,
                             std::optional<std::string>& wrong);

}  // namespace tutti::testing
