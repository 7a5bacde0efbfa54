// Connects ranks of several hosts: which transport moves slots between them, and the cost to them of sharing
// processors.
//
// Thread-safety: functions without state.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/auth/secret_key.h"
#include "selection/cost_model/host_machine.h"
#include "src/init/agreement.h"
#include "transports/progress/network.h"
#include "transports/progress/network_kind.h"
#include "transports/shm/fabric.h"

namespace tutti::init {

struct HostNetwork {
  std::unique_ptr<progress::NetworkEngine> engine;  // null where all ranks are on one host
  const progress::NetworkKind* kind = nullptr;      // of its transport; null likewise
  std::optional<cost_model::NetworkCosts> costs;    // as its devices say, as far as this rank knows; null likewise

  tuttiTransport_t transport() const { return kind == nullptr ? tuttiTransportTcp : kind->transport; }
};

// Collective. One transport for all: the one that TUTTI_NET requires, else the plug-in that TUTTI_NET_PLUGIN names,
// else verbs if every rank can use them, else TCP; rank 0 logs which. Null where all ranks are on one host. Throws
// tuttiInvalidUsage if the settings require a transport that a rank cannot use, naming it and the reason.
const progress::NetworkKind* ChooseNetwork(const Meeting& meeting);

// Collective. `kind`: ChooseNetwork's. `nics`: src/init/near_nics.h. `crowding`: see Processors. `polled`: see NetworkEngine.
HostNetwork ConnectHosts(const Meeting& meeting, const progress::NetworkKind* kind, shm::Fabric& fabric,
                         const auth::SecretKey& key, const std::vector<std::string>& nics, double crowding,
                         const progress::NetworkEngine::PolledRings& polled = nullptr);

// Tells the other ranks that this one has left in order, unless it has failed or been stopped.
void Leave(shm::Fabric& fabric, const HostNetwork& network);

cost_model::Processors ProcessorsOf(const Meeting& meeting, const Agreement& agreement);

}  // namespace tutti::init
