// UCX, for whoever chooses a carrier: whether it can be used, and a carrier that uses it. This header needs none of its
// own, and is there in builds without it, too.
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

// Why this process cannot use UCX, and what to do about it; "" if it can. Starts UCX and ends it again to know that.
std::string WhyNoUcx();

// Collective over all ranks, each of which has found WhyNoUcx() empty, or takes the error. Throws it; otherwise as
// TcpCarrier.
std::unique_ptr<Carrier> MakeUcxCarrier(int rank, const std::vector<int>& peers, const SecretKey& key,
                                        const Settings& settings, const AllGather& all_gather, CarrierEvents& events);

}  // namespace tutti
