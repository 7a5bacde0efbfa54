// What the field claims of these algorithms, as pictures that the simulator draws: docs/simulator.md shows them.
//
// Thread-safety: functions without state.
#pragma once

#include <string>

namespace tutti::tools {

// Into an existing directory, as simulator-*.svg. REQUIRES: the working directory is the project's root.
void DrawClaims(const std::string& directory);

}  // namespace tutti::tools
