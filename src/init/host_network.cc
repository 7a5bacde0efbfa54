#include "src/init/host_network.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include "base/all_gather.h"
#include "base/error.h"
#include "base/log.h"
#include "executors/host/doorbell.h"
#include "transports/plugin/plugin.h"
#include "transports/tcp/interfaces.h"
#include "transports/tcp/tcp.h"
#include "transports/ucx/ucx.h"
#include "transports/verbs/verbs.h"

namespace tutti::init {
namespace {

constexpr progress::NetworkKind kTcp{tuttiTransportTcp,
                                     "tcp",
                                     false,
                                     [](const Settings&) { return std::string(); },
                                     nullptr,
                                     &progress::Make<tcp::TcpTransport>};

// Every network transport.
constexpr std::array kKinds = {&kTcp, &verbs::kNetwork, &ucx::kNetwork, &plugin::kNetwork};

// The one that moves slots between hosts if every rank can use it. UCX is no better where verbs work, and slower over TCP
// than our own transport, so it is used only on request. A plug-in is used where it is named.
const progress::NetworkKind& CandidateOf(const Settings& settings) {
  if (settings.net.empty()) return settings.net_plugin.empty() ? verbs::kNetwork : plugin::kNetwork;
  return **std::ranges::find(kKinds, settings.net, [](const auto* kind) { return kind->name; });
}

// `bandwidth`: what the transport knows of its devices, or 0.
cost_model::NetworkCosts CostsOf(const progress::NetworkKind& kind, double bandwidth, const Settings& settings,
                                 double crowding) {
  if (kind.rdma) return cost_model::RdmaNetworkCosts(bandwidth);
  // A plug-in knows its device's speed, but not what a message costs: that is priced as for TCP. UCX does not report what it
  // has found; this assumes at least TCP.
  const tcp::TcpInterfaces tcp = tcp::DescribeTcp(settings);
  auto costs = cost_model::DefaultNetworkCosts(bandwidth > 0 ? bandwidth : tcp.bandwidth, tcp.by_processor, crowding);
  if (kind.transport != tuttiTransportTcp) costs.message_bandwidth = 0;  // devices may move the bytes
  return costs;
}

}  // namespace

const progress::NetworkKind* ChooseNetwork(const Meeting& meeting) {
  const auto& settings = meeting.settings;
  const auto& roster = meeting.roster;
  if (meeting.one_host()) return nullptr;
  const auto& candidate = CandidateOf(settings);
  const std::string why_not = candidate.why_not(settings);
  const auto reasons = meeting.all_gather(std::as_bytes(std::span(why_not)));
  const auto without = std::find_if(reasons.begin(), reasons.end(), [](const auto& each) { return !each.empty(); });
  if (without != reasons.end()) {
    const int r = static_cast<int>(without - reasons.begin());
    const std::string why(reinterpret_cast<const char*>(without->data()), without->size());
    if (!settings.net.empty() || !settings.net_plugin.empty()) {
      const bool by_name = settings.net.empty();
      Throw(tuttiInvalidUsage, "{}={}, but {} cannot use it: {}", by_name ? "TUTTI_NET_PLUGIN" : "TUTTI_NET",
            by_name ? settings.net_plugin : settings.net, bootstrap::Describe(r, roster[static_cast<std::size_t>(r)]),
            why);
    }
    if (meeting.rank == 0)
      Log(Subject::init, "using {} between hosts; rank {} cannot use {}: {}", kTcp.name, r, candidate.name, why);
  }
  const auto& kind = without == reasons.end() ? candidate : kTcp;
  if (kind.describe != nullptr && meeting.rank == 0) Log(Subject::init, "between hosts: {}", kind.describe(settings));
  return &kind;
}

HostNetwork ConnectHosts(const Meeting& meeting, const progress::NetworkKind* kind, shm::Fabric& fabric,
                         const auth::SecretKey& key, const std::vector<std::string>& nics, double crowding,
                         const progress::NetworkEngine::PolledRings& polled) {
  if (kind == nullptr) return {};
  const auto& settings = meeting.settings;
  std::vector<int> remote;
  for (int r = 0; r < meeting.nranks(); ++r) {
    if (!fabric.is_local(r)) remote.push_back(r);
  }
  const auto make = [&](progress::NetworkTransportEvents& events) {
    return kind->make(fabric.rank(), remote, key, settings, nics, meeting.all_gather, events);
  };
  HostNetwork network;
  network.kind = kind;
  network.engine = std::make_unique<progress::NetworkEngine>(fabric, remote, make, polled);
  network.costs = CostsOf(*kind, network.engine->bandwidth(), settings, crowding);
  return network;
}

void Leave(shm::Fabric& fabric, const HostNetwork& network) {
  auto alive = ring::RankState::alive;
  const bool leaves = fabric.control(fabric.rank())
                          .state.compare_exchange_strong(alive, ring::RankState::left, std::memory_order_release,
                                                         std::memory_order_relaxed);
  host::WakeAll(fabric);
  if (leaves && network.engine != nullptr) network.engine->Leave();
}

cost_model::Processors ProcessorsOf(const Meeting& meeting, const Agreement& agreement) {
  const auto& hosts = meeting.hosts;
  std::set<int> here;  // hosts of this machine
  for (std::size_t r = 0; r < hosts.host_of.size(); ++r) {
    if (hosts.kernel_of[r] == hosts.kernel_of[static_cast<std::size_t>(meeting.rank)]) here.insert(hosts.host_of[r]);
  }
  return cost_model::ShareProcessors(agreement.cores, static_cast<int>(here.size()), agreement.neighbours,
                                     static_cast<int>(hosts.RanksWith(meeting.rank).size()));
}

}  // namespace tutti::init
