// The site of the C API's calls, for messages (src/plan/call_site.h).
//
// Thread-safety: any thread; each has its own site.
#pragma once

#include <cstdint>

#include "src/plan/operation.h"

namespace tutti::api {

// Of the C function that this is inlined into.
[[gnu::always_inline]] inline std::uint64_t CallersSite() { return plan::CurrentSite(__builtin_return_address(0)); }

// The operation, called at `site`.
inline plan::Operation WithSite(plan::Operation operation, std::uint64_t site) {
  operation.site = site;
  return operation;
}

}  // namespace tutti::api
