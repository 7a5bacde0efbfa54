// A like piece of host memory of every rank, mapped by all of its host.
//
// Thread-safety: a collective function without state.
#pragma once

#include <string>
#include <vector>

#include "transports/fabric.h"

namespace tutti {

// Collective. By rank, empty for those of other hosts; zeroed. Throws tuttiSystemError and what the exchange throws.
std::vector<Segment> ShareSegments(const Fabric& shm, const std::string& name, std::size_t bytes,
                                   const AllGather& all_gather, Deadline deadline);

}  // namespace tutti
