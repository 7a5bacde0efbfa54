// Operations beside the all-reduce for the ranks of tests between hosts (host_rank.cc): another one each turn, checked.
//
// Thread-safety: a function without state.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "tutti/tutti.h"

namespace tutti::testing {

// One operation of about `count` elements over all ranks of `comm`, in which this is `rank` of `ranks`. `turn` and
// `salt`, alike on all, choose the operation and its data. Sets `wrong` to what is wrong with its result.
tuttiResult_t RunOneOfTheMix(tuttiComm_t comm, int rank, int ranks, std::size_t count, long turn, std::size_t salt,
                             std::optional<std::string>& wrong);

}  // namespace tutti::testing
