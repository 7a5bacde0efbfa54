// NCCL's words for what Tutti does, in logs and for plug-ins. All live as long as the process.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <string_view>

#include "tutti/tutti.h"

namespace tutti::nccl {

// "AllReduce" for "all_reduce"; "?" for what is no function of Tutti's.
const char* NcclFunctionName(std::string_view function);
// NCCL's number for it.
int NcclFunctionNumber(std::string_view function);
// "RING"; for an algorithm that NCCL lacks Tutti's name in capitals, "TWO_SHOT".
const char* NcclAlgorithmName(tuttiAlgorithm_t algorithm);
// "ncclFloat32".
const char* NcclTypeName(tuttiDataType_t type);
// Bytes that NCCL counts as the traffic of a rank's collective. `bytes`: of the buffer, or of a block.
std::size_t TrafficOf(int function, std::size_t bytes, int nranks);

}  // namespace tutti::nccl
