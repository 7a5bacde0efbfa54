// The hooks of a library on top of this one (tutti/extension.h). Like settings, they are given once and do not change.
//
// Thread-safety: any thread.
#pragma once

#include <string>

#include "tutti/extension.h"

namespace tutti {

// The registered hooks; those that were not given are null.
const tuttiExtension_t& TheExtension();
// Throws tuttiInvalidUsage if there are hooks already, tuttiInvalidArgument if the struct has no size.
void RegisterExtension(const tuttiExtension_t& given);

[[noreturn]] void ThrowReason(tuttiResult_t result, const char* why);
// Runs a hook that returns a result and writes a reason. Throws that result with that reason.
template <typename Hook, typename... Arguments>
void RequireSuccess(Hook hook, Arguments... arguments) {
  constexpr std::size_t kLongestReason = 1024;
  std::string why(kLongestReason, '\0');
  const auto result = hook(arguments..., why.data(), why.size());
  if (result == tuttiSuccess) return;
  why.back() = '\0';
  ThrowReason(result, why.c_str());
}

}  // namespace tutti
