#include "src/init/host_network.h"

#include <algorithm>
#include <set>
#include <string>

#include "base/all_gather.h"
#include "base/error.h"
#include "base/log.h"
#include "transports/plugin/plugin.h"
#include "transports/tcp/interfaces.h"
#include "transports/tcp/tcp.h"
#include "transports/ucx/ucx.h"
#include "transports/verbs/verbs.h"

namespace tutti::init {
namespace {

// The transport that moves slots between hosts if every rank can use it. UCX is no better where verbs work, and slower
// over TCP than our own transport, so it is used only on request. A plug-in is used where it is named.
tuttiTransport_t CandidateOf(const Settings& settings) {
  if (settings.net == "tcp") return tuttiTransportTcp;
  if (settings.net == "plugin" || (settings.net.empty() && !settings.net_plugin.empty())) return tuttiTransportPlugin;
  return settings.net == "ucx" ? tuttiTransportUcx : tuttiTransportVerbs;
}

// Why this process cannot use the transport; "" if it can.
std::string WhyNot(tuttiTransport_t transport, const Settings& settings) {
  switch (transport) {
    case tuttiTransportVerbs: return verbs::WhyNoVerbs(settings);
    case tuttiTransportUcx: return ucx::WhyNoUcx();
    case tuttiTransportPlugin: return plugin::WhyNoPlugin(settings);
    default: return "";
  }
}

cost_model::NetworkCosts CostsOf(const HostNetwork& network, const Settings& settings, double crowding) {
  if (network.transport == tuttiTransportVerbs) return cost_model::RdmaNetworkCosts(network.engine->bandwidth());
  const tcp::TcpInterfaces tcp = tcp::DescribeTcp(settings);
  // A plug-in knows its device's speed. What it costs beyond that is assumed to be as for TCP.
  if (network.transport == tuttiTransportPlugin && network.engine->bandwidth() > 0)
    return cost_model::DefaultNetworkCosts(network.engine->bandwidth(), tcp.by_processor, crowding);
  // UCX does not report what it has found; assumes at least TCP.
  return cost_model::DefaultNetworkCosts(tcp.bandwidth, tcp.by_processor, crowding);
}

}  // namespace

HostNetwork ConnectHosts(shm::Fabric& fabric, const std::vector<bootstrap::Process>& roster, const auth::SecretKey& key,
                         const Settings& settings, double crowding, const AllGather& all_gather,
                         const progress::NetworkEngine::PolledRings& polled) {
  if (fabric.hosts().count() == 1) return {};
  std::vector<int> remote;
  for (int r = 0; r < static_cast<int>(roster.size()); ++r) {
    if (!fabric.is_local(r)) remote.push_back(r);
  }
  const auto transport = CandidateOf(settings);
  const std::string why_not = WhyNot(transport, settings);
  const auto reasons = all_gather(std::as_bytes(std::span(why_not)));
  const auto without = std::find_if(reasons.begin(), reasons.end(), [](const auto& each) { return !each.empty(); });
  if (without != reasons.end()) {
    const int r = static_cast<int>(without - reasons.begin());
    const std::string why(reinterpret_cast<const char*>(without->data()), without->size());
    if (!settings.net.empty() || transport == tuttiTransportPlugin) {
      const bool by_name = settings.net.empty();
      Throw(tuttiInvalidUsage, "{}={}, but {} cannot use it: {}", by_name ? "TUTTI_NET_PLUGIN" : "TUTTI_NET",
            by_name ? settings.net_plugin : settings.net, bootstrap::Describe(r, roster[static_cast<std::size_t>(r)]),
            why);
    }
    if (fabric.rank() == 0) Log(Subject::init, "using tcp between hosts; rank {} cannot use verbs: {}", r, why);
  }
  if (transport == tuttiTransportPlugin && fabric.rank() == 0)
    Log(Subject::init, "between hosts: {}", plugin::DescribePlugin(settings));
  HostNetwork network;
  network.transport = without == reasons.end() ? transport : tuttiTransportTcp;
  const auto make = [&](progress::NetworkTransportEvents& events) -> std::unique_ptr<progress::NetworkTransport> {
    switch (network.transport) {
      case tuttiTransportVerbs:
        return verbs::MakeVerbsTransport(fabric.rank(), remote, key, settings, all_gather, events);
      case tuttiTransportUcx: return ucx::MakeUcxTransport(fabric.rank(), remote, key, settings, all_gather, events);
      case tuttiTransportPlugin:
        return plugin::MakePluginTransport(fabric.rank(), remote, key, settings, all_gather, events);
      default: return std::make_unique<tcp::TcpTransport>(fabric.rank(), remote, key, settings, all_gather, events);
    }
  };
  network.engine = std::make_unique<progress::NetworkEngine>(fabric, remote, make, polled);
  network.costs = CostsOf(network, settings, crowding);
  return network;
}

cost_model::Processors ProcessorsOf(const shm::Hosts& hosts, int rank, const Agreement& agreement) {
  std::set<int> here;  // hosts of this machine
  for (std::size_t r = 0; r < hosts.host_of.size(); ++r) {
    if (hosts.kernel_of[r] == hosts.kernel_of[static_cast<std::size_t>(rank)]) here.insert(hosts.host_of[r]);
  }
  return cost_model::ShareProcessors(agreement.cores, static_cast<int>(here.size()), agreement.neighbours,
                                     static_cast<int>(hosts.RanksWith(rank).size()));
}

}  // namespace tutti::init
