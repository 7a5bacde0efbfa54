// Whether the GPUs of a communicator may exchange lines of 128 bytes, which the hardware must keep together
// (executors/cuda/kernels/line128.h).
//
// Thread-safety: functions without state; WhyNoLines128 is collective.
#pragma once

#include <string>

#include "base/all_gather.h"
#include "transports/cuda/fabric.h"

namespace tutti::cuda_transport {

// Collective. "" if they may: all ranks of a host are on one GPU, or NVLink joins every two of their GPUs. Otherwise a readable
// reason. The same on all ranks. `p2p`: as for DeviceFabric.
std::string WhyNoLines128(const CudaDevice& device, int rank, const shm::Hosts& hosts, bool p2p,
                          const AllGather& all_gather);

// Throws tuttiInvalidUsage, with the reason, if lines are forced but `why_not`, or the fabric, excludes them.
void RequireLines128(const std::string& why_not, const DeviceFabric& fabric);

}  // namespace tutti::cuda_transport
