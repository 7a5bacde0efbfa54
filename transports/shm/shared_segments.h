// A piece of host memory of every rank, mapped by all ranks of its host.
//
// Thread-safety: collective functions without state.
#pragma once

#include <string>
#include <vector>

#include "transports/shm/fabric.h"

namespace tutti::shm {

// Collective. Makes new, zeroed memory of the same size on every rank. Returns it by rank, empty for ranks of other
// hosts. Throws tuttiSystemError and what the exchange throws.
std::vector<Segment> ShareSegments(const Fabric& shm, const std::string& name, std::size_t bytes,
                                   const AllGather& all_gather, Deadline deadline);
// Likewise for existing memory: this rank's is `mapping`, and `fd` its file.
std::vector<Segment> ShareSegments(const Fabric& shm, const FileDescriptor& fd, std::shared_ptr<Mapping> mapping,
                                   const AllGather& all_gather, Deadline deadline);

}  // namespace tutti::shm
