// Turns descriptions into the graph. PCI bridges that join nothing (fewer than two branches below them) are left out;
// their link's bandwidth counts as the branch's own. GPUs and ports without a number get one in the order of their bus
// ids.
//
// Thread-safety: pure functions.
#pragma once

#include <vector>

#include "topology/graph/description.h"
#include "topology/graph/system.h"

namespace tutti::topology {

// Calls visit(PciDescription&) for each place of the tree, parents first, in order.
template <typename Places, typename Visit>
void ForEachPlace(Places& places, const Visit& visit) {
  for (auto& place : places) {
    visit(place);
    ForEachPlace(place.children, visit);
  }
}

template <typename Host, typename Visit>
void ForEachPlaceOf(Host& host, const Visit& visit) {
  for (auto& cpu : host.cpus) ForEachPlace(cpu.devices, visit);
}

// Hosts are numbered by their place in `hosts`. Parts that had to be left out are added to their notes.
// REQUIRES: bus ids are unique in a host (except ""), and PCI speeds are in the table of link constants.
System Assemble(std::vector<HostDescription>& hosts);

}  // namespace tutti::topology
