// ncclConfig_t, as any version of NCCL lays it out: which fields are there is decided by the struct's `size` and by its
// `version`, because a field that came later may lie where an older struct has padding.
//
// Thread-safety: pure functions.
#pragma once

#include <optional>

#include "interop/nccl/nccl.h"
#include "tutti/tutti.h"

namespace tutti::nccl {

// Nothing if `given` is null: Tutti's own way to say "the defaults" or "inherit". Throws Refusal for a struct that was
// not initialised and for values that no version of NCCL takes.
std::optional<tuttiConfig_t> ToTutti(const ncclConfig_t* given);

inline tuttiConfig_t* OrNull(std::optional<tuttiConfig_t>& config) { return config ? &*config : nullptr; }

}  // namespace tutti::nccl
