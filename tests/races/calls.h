// Every call of tutti.h that takes a communicator, a stream, a window, an operator or a group.
//
// Thread-safety: a call may run in several threads at once, each on its own Side or on the same.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "tests/races/world.h"

namespace tutti::races {

struct RacingCall {
  std::string_view name;
  std::function<tuttiResult_t(World&, Side&)> run;
  // The failure may belong to another call, whose message is kept in its communicator.
  bool speaks_for_others = false;
};

const std::vector<RacingCall>& Calls();

}  // namespace tutti::races
