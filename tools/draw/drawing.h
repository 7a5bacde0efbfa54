// A picture of one host: its devices, its links with their bandwidths, and the rings found in it, each in its own
// colour.
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "topology/graph/system.h"
#include "topology/search/ring_search.h"

namespace tutti::tools {

struct RingPicture {
  std::string heading;
  search::Rings rings;
};

// One self-contained SVG document.
std::string DrawHost(const topology::System& system, int host, const std::string& title,
                     const std::vector<RingPicture>& rings);

}  // namespace tutti::tools
