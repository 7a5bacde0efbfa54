// The table of rings, docs/notebook/topology/rings.csv: every description in a directory, on one host and on several.
//
// Thread-safety: pure function of the files.
#pragma once

#include <string>

namespace tutti::tools {

// Markdown. Shows our search next to a reference's results if the directory has graphs.csv: name, inter (0: one host,
// 1: several), domain, channels, bandwidth_intra, bandwidth_inter.
std::string RingTable(const std::string& directory);

}  // namespace tutti::tools
