// Calls that all ranks make in the same order over the control plane.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace tutti {

// The numbers travel.
enum class ControlCall : std::uint64_t { split, grow, window_register, window_deregister };

// For a person. Peers may have sent any number.
std::string_view NameOf(ControlCall call);

// How every sentence about calls that do not match begins.
inline constexpr std::string_view kMismatch = "the ranks' calls do not match: ";

// What is being thrown, as a failure for ranks to tell each other. REQUIRES: called in a catch block.
Error CurrentFailure();

}  // namespace tutti
