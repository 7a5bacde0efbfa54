// A rank's flight recorder as a file: its last operations, the current one, and the outcome. `tutti diagnose` reads the
// files of all ranks.
//
// Thread-safety: a pure function; the control block may be written concurrently.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clocks/clock.h"
#include "base/error.h"
#include "src/bootstrap/join_messages.h"
#include "transports/ring/control_block.h"

namespace tutti::diagnostics {

struct DumpedRank {
  std::string communicator;  // the same on all its ranks
  std::string name;          // the user's; may be empty
  int rank = 0;
  std::vector<bootstrap::Process> roster;
  std::optional<Error> failure;
  int waits_for = -1;  // a rank; -1: none known
  TickScale scale;
};

// JSON. Times are microseconds since 1970 by this host's clock.
std::string DumpOf(const DumpedRank& dumped, const ring::ControlBlock& control);

}  // namespace tutti::diagnostics
