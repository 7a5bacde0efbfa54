// Network plug-ins of NCCL, for the code that chooses a transport: whether the one that the settings name can be used,
// and a transport that uses it.
//
// Thread-safety: functions without state; a process loads a plug-in once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/all_gather.h"
#include "base/settings.h"
#include "net/auth/secret_key.h"
#include "transports/progress/network_transport.h"

namespace tutti::plugin {

// Why this process cannot use the plug-in, naming it; "" if it can. Loads and initialises it to find out.
std::string WhyNoPlugin(const Settings& settings);

// The plug-in and its devices, for a person. REQUIRES: WhyNoPlugin() is empty.
std::string DescribePlugin(const Settings& settings);

// Collective over all ranks. Each rank has found WhyNoPlugin() empty; otherwise this throws that error. Other errors as
// PluginTransport.
std::unique_ptr<progress::NetworkTransport> MakePluginTransport(int rank, const std::vector<int>& peers,
                                                                const auth::SecretKey& key, const Settings& settings,
                                                                const AllGather& all_gather,
                                                                progress::NetworkTransportEvents& events);

}  // namespace tutti::plugin
