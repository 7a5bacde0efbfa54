// Verbs, for whoever chooses a carrier: whether they can be used, and a carrier that uses them. This header needs none
// of theirs, and is there in builds without them, too.
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

// Why this process cannot use verbs as the settings want them, and what to do about it; "" if it can. Opens the devices
// and registers some memory to know it.
std::string WhyNoVerbs(const Settings& settings);

// Collective over all ranks, each of which has found WhyNoVerbs() empty, or takes the error. Throws it; otherwise as
// TcpCarrier.
std::unique_ptr<Carrier> MakeVerbsCarrier(int rank, const std::vector<int>& peers, const SecretKey& key,
                                          const Settings& settings, const AllGather& all_gather, CarrierEvents& events);

}  // namespace tutti
