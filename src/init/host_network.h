// Connects ranks of several hosts: which carrier moves slots between them, and the cost to them of sharing processors.
//
// Thread-safety: functions without state.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/settings.h"
#include "net/auth/secret_key.h"
#include "selection/cost_model/host_machine.h"
#include "src/bootstrap/join_messages.h"
#include "src/init/agreement.h"
#include "src/plan/plan_selector.h"
#include "transports/progress/network.h"
#include "transports/shm/fabric.h"

namespace tutti {

struct HostNetwork {
  std::unique_ptr<NetworkEngine> engine;  // null where all ranks are on one host
  tuttiTransport_t transport = tuttiTransportTcp;
  std::optional<NetworkCosts> costs;  // as far as this rank knows
};

// Collective. One carrier for all: the one that TUTTI_NET requires, else verbs if every rank can use them, else TCP,
// which rank 0 logs. Throws tuttiInvalidUsage if TUTTI_NET requires a carrier that a rank cannot use, naming it and the
// reason. `crowding`: see Processors. `polled`: see NetworkEngine.
HostNetwork ConnectHosts(Fabric& fabric, const std::vector<Process>& roster, const SecretKey& key,
                         const Settings& settings, double crowding, const AllGather& all_gather,
                         const NetworkEngine::PolledRings& polled = nullptr);

Processors ProcessorsOf(const Hosts& hosts, int rank, const Agreement& agreement);

}  // namespace tutti
