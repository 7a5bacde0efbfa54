// UCX, for the code that chooses a transport: whether it can be used, and a transport that uses it. This header needs
// none of UCX's own, so that builds without UCX have it, too.
//
// Thread-safety: functions without state.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/all_gather.h"
#include "base/settings.h"
#include "net/auth/secret_key.h"
#include "transports/progress/network_transport.h"

namespace tutti::ucx {

// Why this process cannot use UCX, and what to do about it; "" if it can. Starts and ends UCX to find out.
std::string WhyNoUcx();

// Collective over all ranks. Each rank has found WhyNoUcx() empty; otherwise this throws that error. Other errors as
// TcpTransport.
std::unique_ptr<progress::NetworkTransport> MakeUcxTransport(int rank, const std::vector<int>& peers,
                                                             const auth::SecretKey& key, const Settings& settings,
                                                             const AllGather& all_gather,
                                                             progress::NetworkTransportEvents& events);

}  // namespace tutti::ucx
