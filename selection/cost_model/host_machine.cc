#include "selection/cost_model/host_machine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/files/json.h"
#include "topology/graph/link_constants.h"

namespace tutti::cost_model {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t MiB = 1024 * kKiB;

// The names of a file's entries.
constexpr char kOperation[] = "operation_us";
constexpr char kChannelSkew[] = "channel_skew_us";
constexpr char kStep[] = "step_us";
constexpr char kSlot[] = "bulk_slot_us";
constexpr char kFetch[] = "fetch_us";
constexpr char kFetchPage[] = "fetch_page_us";
constexpr char kYield[] = "yield_us";
constexpr char kHelpers[] = "helpers_us";
constexpr char kCores[] = "cores";
constexpr char kBandwidth[] = "executor_bandwidth";
constexpr char kStreamed[] = "streamed_bandwidth";
constexpr char kLowPrecision[] = "low_precision_bandwidth";
constexpr char kCrossing[] = "crossing_bandwidth";
constexpr char kFootprint[] = "up_to_bytes";
constexpr char kRate[] = "GBps";
constexpr char kLatency[] = "latency_us";
constexpr char kDomainBandwidth[] = "domain_bandwidth_GBps";
constexpr char kDomainLatency[] = "domain_latency_us";

double Positive(const JsonValue& json, const char* key, double most) {
  const double value = json.Number(key, 0, most);
  if (value == 0) json.Refuse("\"{}\" is 0; it takes a number above 0", key);
  return value;
}

nlohmann::ordered_json ToJson(const Rate& rate) {
  nlohmann::ordered_json json;
  for (const auto& step : rate) {
    nlohmann::ordered_json entry;
    if (step.footprint != kAnySize) entry[kFootprint] = step.footprint;
    entry[kRate] = step.bandwidth;
    json.push_back(std::move(entry));
  }
  return json;
}

constexpr double kLongestUs = 1e6;
constexpr double kFastestGBps = 1e5;
constexpr int kMostCores = 4096;

Rate RateFromJson(const JsonValue& json, const char* key) {
  const auto entries = json.List(key);
  if (entries.empty()) json.Refuse("\"{}\" takes a list with at least one entry", key);
  Rate rate;
  for (const auto& entry : entries) {
    const bool last = &entry == &entries.back();
    const auto footprint = last ? kAnySize : static_cast<std::size_t>(Positive(entry, kFootprint, std::exp2(62)));
    if (!rate.empty() && footprint <= rate.back().footprint) {
      entry.Refuse("the values of \"{}\" do not ascend in \"{}\"", kFootprint, key);
    }
    rate.push_back({footprint, Positive(entry, kRate, kFastestGBps)});
  }
  return rate;
}

}  // namespace

HostCosts DefaultHostCosts(int cores, const HostTraits& traits) {
  HostCosts host;
  host.costs.operation_us = 0.25;
  host.costs.channel_skew_us = 0.2;  // time that one thread takes for each further channel of a call
  host.costs.step_us = 0.06;
  host.costs.slot_us = {0, 0, 0.3};
  host.latency = {0.1, 0.2, 0.3};
  // A call takes 0.6 us, and 0.15 to see that the peer still lives. A page costs 0.14 to 0.33 us more than the vector
  // copy of its bytes. On two Xeons whose string copies are fast (Sapphire Rapids, and model 167 of family 6), both
  // together take 0.6 us, and a page 0.065 to 0.12 (`tutti calibrate`).
  host.costs.fetch_us = traits.fast_string_copies ? 0.6 : 0.75;
  host.costs.fetch_page_us = traits.fast_string_copies ? 0.07 : 0.25;
  host.costs.yield_us = 0.9;  // half of two ranks' round trip on one core
  // Two cores of a Xeon's virtual machine: 37 to 61 us where the helper had slept for 0.1 to 5 ms, 1.3 where it had just
  // worked (`tutti calibrate` measures it after 1 ms).
  host.costs.helpers_us = 50;
  host.costs.cores = cores;
  // Bytes read and written, together, by one core: in L2, in L3, in an L3 that does not hold all, in memory.
  const std::size_t half = std::max(traits.cache_bytes / 2, 1 * MiB);
  host.costs.executor_bandwidth = {{512 * kKiB, 60}, {half, 50}, {2 * half, 30}, {kAnySize, 12}};
  // Three bytes move for two that a copy counts, unless it stores past the caches.
  host.costs.streamed_bandwidth = 18;
  // On two cores of a Xeon with AVX-512 (model 167 of family 6), an all-reduce of 1 MiB on two ranks takes 33 us more in
  // bfloat16 than in float32 if each rank adds all of it (`direct`).
  host.costs.low_precision_bandwidth = 60;
  // Bytes copied from another core's fresh lines: a short piece pays for finding them, a long one for its length. From
  // half of an L2 of 512 kKiB on, lines have left it: two Zen 2 cores copied 36 GB/s up to 128 kKiB, and 15 at 512.
  host.costs.crossing_bandwidth = {{512, 4.6},      {1 * kKiB, 7.8},  {4 * kKiB, 11},
                                   {16 * kKiB, 17}, {256 * kKiB, 20}, {kAnySize, 11}};
  if (traits.wide_caches) {
    // Two Zen 4 cores with an L2 of 1 MiB each, whose slots' data change places (`tutti-bench limits`).
    host.costs.executor_bandwidth = {{512 * kKiB, 110}, {half, 85}, {2 * half, 35}, {kAnySize, 20}};
    host.costs.crossing_bandwidth = {{512, 10}, {1 * kKiB, 15}, {4 * kKiB, 30}, {16 * kKiB, 36}, {kAnySize, 40}};
    host.costs.slot_us = {0, 0, 0.03};
    host.latency = {0.1, 0.2, 0.15};
  }
  // An estimate. Two dies of an EPYC 7001 exchange 21.3 GB/s each way (AMD's briefing, in AnandTech of June 2017); two
  // sockets of Ice Lake have two or three links of 20.8 GB/s (link_constants.h), of which snoops take a part.
  host.domain_bandwidth = 25;
  host.domain_latency_us = topology::kSocketLatency;
  return host;
}

std::string ToJson(const HostCosts& host) {
  nlohmann::ordered_json json;
  json[kOperation] = host.costs.operation_us;
  json[kChannelSkew] = host.costs.channel_skew_us;
  json[kStep] = host.costs.step_us;
  json[kFetch] = host.costs.fetch_us;
  json[kFetchPage] = host.costs.fetch_page_us;
  json[kStreamed] = host.costs.streamed_bandwidth;
  json[kLowPrecision] = host.costs.low_precision_bandwidth;
  json[kYield] = host.costs.yield_us;
  json[kHelpers] = host.costs.helpers_us;
  json[kSlot] = host.costs.slot_us[static_cast<std::size_t>(ring::Protocol::bulk)];
  json[kCores] = host.costs.cores;
  for (int protocol = 0; protocol < ring::kProtocols; ++protocol)
    json[kLatency][std::string(ring::NameOf(static_cast<ring::Protocol>(protocol)))] = host.latency[protocol];
  json[kDomainBandwidth] = host.domain_bandwidth;
  json[kDomainLatency] = host.domain_latency_us;
  json[kBandwidth] = ToJson(host.costs.executor_bandwidth);
  json[kCrossing] = ToJson(host.costs.crossing_bandwidth);
  return JsonText(json, 2);
}

HostCosts HostCostsFromJson(const JsonValue& json) {
  HostCosts host;
  const HostCosts host_defaults = DefaultHostCosts(1);
  const Costs& defaults = host_defaults.costs;
  host.costs.operation_us = Positive(json, kOperation, kLongestUs);
  host.costs.channel_skew_us = Positive(json, kChannelSkew, kLongestUs);
  host.costs.step_us = Positive(json, kStep, kLongestUs);
  // Older calibrations do not have these.
  host.costs.fetch_us = json.Number(kFetch, 0, kLongestUs, defaults.fetch_us);
  host.costs.fetch_page_us = json.Number(kFetchPage, 0, kLongestUs, defaults.fetch_page_us);
  host.costs.streamed_bandwidth = json.Number(kStreamed, 0, kFastestGBps, 0);
  host.costs.low_precision_bandwidth = json.Number(kLowPrecision, 0, kFastestGBps, defaults.low_precision_bandwidth);
  host.domain_bandwidth = json.Number(kDomainBandwidth, 0, kFastestGBps, host_defaults.domain_bandwidth);
  host.domain_latency_us = json.Number(kDomainLatency, 0, kLongestUs, host_defaults.domain_latency_us);
  host.costs.yield_us = Positive(json, kYield, kLongestUs);
  host.costs.helpers_us = json.Number(kHelpers, 0, kLongestUs, defaults.helpers_us);
  host.costs.slot_us[static_cast<std::size_t>(ring::Protocol::bulk)] = Positive(json, kSlot, kLongestUs);
  host.costs.cores = static_cast<int>(json.Whole(kCores, 1, kMostCores));
  const auto latency = json.At(kLatency);
  for (int protocol = 0; protocol < ring::kProtocols; ++protocol) {
    host.latency[protocol] =
        Positive(latency, std::string(ring::NameOf(static_cast<ring::Protocol>(protocol))).c_str(), kLongestUs);
  }
  host.costs.executor_bandwidth = RateFromJson(json, kBandwidth);
  host.costs.crossing_bandwidth = RateFromJson(json, kCrossing);
  return host;
}

HostCosts HostCostsFromJson(const std::string& text, const std::string& name) {
  const JsonDocument document(text, name);
  return HostCostsFromJson(document.root());
}

Processors ShareProcessors(int cores, int hosts, int ranks, int of_host) {
  if (hosts == 1) return {cores, 1};
  const int host_cores = std::max(1, cores / hosts);
  const auto per_core = [](int of, int on) { return static_cast<double>(of) / on; };
  return {host_cores, std::max(1.0, per_core(ranks, cores) / std::max(1.0, per_core(of_host, host_cores)))};
}

NetworkCosts DefaultNetworkCosts(double bandwidth, bool by_processor, double crowding) {
  // Between two namespaces of one machine with two Zen 3 cores, half a round trip of 8 bytes takes 11 to 13 us, all of
  // it system calls (docs/notebook/performance/between_hosts.md). On a network card the system calls are shorter; the
  // rest is the trip itself.
  // A thread that sends and receives, authenticated by OpenSSL, moved 2.0 GB/s each way between two namespaces (Intel Xeon,
  // Sapphire Rapids).
  constexpr double kMessageBandwidth = 4;
  if (by_processor) return {bandwidth, {1, 1, 2}, 5.5 * crowding, kMessageBandwidth / crowding};
  return {bandwidth, {8, 8, 10}, 2, kMessageBandwidth};
}

NetworkCosts RdmaNetworkCosts(double bandwidth) {
  // Not measured here. perftest's ib_write_lat gives 1 to 2 us for a write from memory to memory on the cards of the
  // last ten years; a core that does nothing else posts 2 million messages a second, and polls for each.
  return {bandwidth, {1.5, 1.5, 2}, 0.5, 0};
}

namespace {

std::array<double, ring::kProtocols> HalfOf(std::array<double, ring::kProtocols> latency) {
  for (double& each : latency) each /= 2;
  return latency;
}

// How the nodes of a machine reach each other: over two resources each, out and in, or over none.
struct BetweenNodes {
  std::vector<Resource> resources;
  std::array<double, ring::kProtocols> latency;
  bool network;
};

Machine MachineOfNodes(const HostCosts& host, Costs costs, schedule::RankLayout rank_layout,
                       const BetweenNodes& between) {
  std::vector<NodeType> types;
  std::vector<int> type_of_node;
  const Route through_memory{{}, host.latency, false};
  for (const auto& ranks : rank_layout.ranks_on) {
    const std::size_t n = ranks.size();
    type_of_node.push_back(static_cast<int>(types.size()));
    NodeType type{
        between.resources, std::vector<std::vector<Route>>(n, std::vector<Route>(n, through_memory)), {}, {}, {}, {}};
    // Half of the latency on each side.
    Route out{{}, HalfOf(between.latency), between.network}, in = out;
    if (!between.resources.empty()) {
      out.resources = {0};
      in.resources = {1};
    }
    type.outward.assign(n, {out});
    type.inward.assign(n, {in});
    types.push_back(std::move(type));
  }
  return {std::move(types), std::move(type_of_node), std::move(rank_layout), std::move(costs)};
}

}  // namespace

schedule::RankLayout ArrangeByDomain(const topology::Domains& domains) {
  schedule::RankLayout rank_layout = schedule::ArrangeByNode(domains.domain_of);
  std::vector<int> ring;
  for (const auto& ranks : rank_layout.ranks_on) ring.insert(ring.end(), ranks.begin(), ranks.end());
  if (!std::is_sorted(ring.begin(), ring.end())) rank_layout.rings = {std::move(ring)};
  return rank_layout;
}

Machine DomainsMachine(const HostCosts& host, schedule::RankLayout rank_layout) {
  Costs costs = host.costs;
  costs.cores = std::max(1, costs.cores / std::max(1, rank_layout.nodes()));
  BetweenNodes between{
      {{"cache out", host.domain_bandwidth}, {"cache in", host.domain_bandwidth}}, host.latency, false};
  for (double& latency : between.latency) latency += host.domain_latency_us;
  return MachineOfNodes(host, std::move(costs), std::move(rank_layout), between);
}

Machine HostMachine(const HostCosts& host, schedule::RankLayout rank_layout,
                    const std::optional<NetworkCosts>& network) {
  Costs costs = host.costs;
  if (!network) return MachineOfNodes(host, std::move(costs), std::move(rank_layout), {{}, host.latency, false});
  costs.message_us = network->message_us;
  costs.message_bandwidth = network->message_bandwidth;
  return MachineOfNodes(
      host, std::move(costs), std::move(rank_layout),
      {{{"network out", network->bandwidth}, {"network in", network->bandwidth}}, network->latency, true});
}

}  // namespace tutti::cost_model
