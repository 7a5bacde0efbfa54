// Tutti's messages in the words of NCCL's users: the functions that they call, the variables that they set.
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "interop/nccl/environment/environment.h"

namespace tutti::nccl {

// Replaces the names of functions and constants that NCCL has by NCCL's ("tuttiGroupEnd" by "ncclGroupEnd"), and those of
// settings that an NCCL variable gave by that variable's. The rest stays: only Tutti has it.
std::string InNcclsWords(std::string_view text, const Environment& environment);

}  // namespace tutti::nccl
