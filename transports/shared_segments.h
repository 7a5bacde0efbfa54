// A like piece of host memory of every rank, mapped by all.
//
// Thread-safety: a collective function without state.
#pragma once

#include <string>
#include <vector>

#include "transports/shm.h"

namespace tutti {

// Collective. By rank; zeroed. Throws tuttiSystemError and what the exchange throws.
std::vector<Segment> ShareSegments(const ShmFabric& shm, const std::string& name, std::size_t bytes,
                                   const AllGather& all_gather, Deadline deadline);

}  // namespace tutti
