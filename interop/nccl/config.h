// Reads ncclConfig_t as any version of NCCL lays it out. The struct's `size` and `version` together decide which fields
// it has, because a later field may lie where an older struct has padding.
//
// Thread-safety: pure functions.
#pragma once

#include <optional>

#include "interop/nccl/nccl.h"
#include "tutti/tutti.h"

namespace tutti::nccl {

inline constexpr int kCtaPolicies = NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO;

// Returns nothing if `given` is null, which Tutti takes as "the defaults" or "inherit". Throws Refusal for an
// uninitialised struct and for values that no version of NCCL accepts.
std::optional<tuttiConfig_t> ToTutti(const ncclConfig_t* given);

inline tuttiConfig_t* OrNull(std::optional<tuttiConfig_t>& config) { return config ? &*config : nullptr; }

}  // namespace tutti::nccl
