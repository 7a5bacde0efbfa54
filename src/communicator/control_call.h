// Calls that all ranks make in the same order over the control plane.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace tutti::comm {

// The numbers are sent to peers.
enum class ControlCall : std::uint64_t { split, grow, window_register, suspend, resume };

// For people. Peers may have sent any number.
std::string_view NameOf(ControlCall call);

// The beginning of every message about calls that do not match.
inline constexpr std::string_view kMismatch = "the ranks' calls do not match: ";

// The current exception, as a failure that ranks send each other. REQUIRES: called in a catch block.
Error CurrentFailure();

}  // namespace tutti::comm
