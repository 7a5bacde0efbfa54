// UCX, for the code that chooses a carrier: whether it can be used, and a carrier that uses it. This header needs none
// of UCX's own, so that builds without UCX have it, too.
//
// Thread-safety: functions without state.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/settings.h"
#include "net/auth/secret_key.h"
#include "transports/progress/carrier.h"
#include "transports/shm/hosts.h"

namespace tutti {

// Why this process cannot use UCX, and what to do about it; "" if it can. Starts and ends UCX to find out.
std::string WhyNoUcx();

// Collective over all ranks. Each rank has found WhyNoUcx() empty; otherwise this throws that error. Other errors as
// TcpCarrier.
std::unique_ptr<Carrier> MakeUcxCarrier(int rank, const std::vector<int>& peers, const SecretKey& key,
                                        const Settings& settings, const AllGather& all_gather, CarrierEvents& events);

}  // namespace tutti
