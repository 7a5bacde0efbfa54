// Verbs, for the code that chooses a transport: whether they can be used, and a transport that uses them. This header
// needs no verbs header, so that builds without verbs have it, too.
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

namespace tutti::verbs {

// Why this process cannot use verbs as the settings want them, and what to do about it; "" if it can. Opens the devices
// and registers some memory to find out.
std::string WhyNoVerbs(const Settings& settings);

// Collective over all ranks. Each rank has found WhyNoVerbs() empty; otherwise this throws that error. Other errors as
// TcpTransport.
std::unique_ptr<progress::NetworkTransport> MakeVerbsTransport(int rank, const std::vector<int>& peers,
                                                               const auth::SecretKey& key, const Settings& settings,
                                                               const AllGather& all_gather,
                                                               progress::NetworkTransportEvents& events);

}  // namespace tutti::verbs
