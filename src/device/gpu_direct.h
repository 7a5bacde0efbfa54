// Whether NICs read and write a rank's slots between hosts in the memory of its GPU (GPUDirect RDMA).
//
// Thread-safety: functions without state.
#pragma once

#include <string>

#include "base/settings/settings.h"
#include "src/init/near_nics.h"
#include "transports/cuda/cuda_device.h"
#include "transports/progress/network_kind.h"

namespace tutti::device {

// Why they do not, and what would change that; "" if they do. A rank decides for itself, by the setting, the distance, the
// transport, the driver, and an attempt: peers only learn where its slots lie. Never throws.
std::string WhyNotDirect(const cuda_transport::CudaDevice& device, const init::NearNics& nics,
                         const progress::NetworkKind& network, const Settings& settings);

}  // namespace tutti::device
