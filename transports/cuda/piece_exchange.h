// Memory of the program that lies in physical allocations (mapped_memory.h), mapped by the ranks that share it.
//
// Thread-safety: collective to use.
#pragma once

#include <string>
#include <vector>

#include "base/all_gather.h"
#include "base/clocks/deadline.h"
#include "transports/cuda/cuda_device.h"
#include "transports/cuda/memory/mapped_memory.h"
#include "transports/shm/fabric.h"

namespace tutti::cuda_transport {

// Collective. Maps the pieces of the ranks that this one names, which are of its host, for its device: whole pieces side
// by side, by rank. `mine`: this rank's, if it shares any. If some rank cannot share or map what is asked for, *why gives
// the reason on all ranks. Throws what the exchange of descriptors throws.
std::vector<MappedMemory> ExchangePieces(const CudaDevice& device, const shm::Fabric& shm, const Pieces& mine,
                                         const std::vector<bool>& wanted, const AllGather& all_gather,
                                         Deadline deadline, std::string* why);

}  // namespace tutti::cuda_transport
