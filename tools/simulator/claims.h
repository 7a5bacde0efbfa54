// Draws the field's claims about these algorithms with the simulator; docs/simulator.md shows the pictures.
//
// Thread-safety: functions without state.
#pragma once

#include <string>

namespace tutti::tools {

// Writes simulator-*.svg into an existing directory. REQUIRES: the working directory is the project's root.
void DrawClaims(const std::string& directory);

}  // namespace tutti::tools
