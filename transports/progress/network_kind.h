// What is known of a network transport before it is made. Each transport's folder has one; src/init/host_network.cc lists
// them, and chooses.
//
// Thread-safety: constants, with functions without state.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/all_gather.h"
#include "base/error.h"
#include "base/settings/settings.h"
#include "net/auth/secret_key.h"
#include "transports/progress/network_transport.h"
#include "tutti/tutti.h"

namespace tutti::progress {

struct NetworkKind {
  tuttiTransport_t transport;
  std::string_view name;  // TUTTI_NET's
  // Devices move the data, without the processors' help.
  bool rdma;
  // Why this process cannot use it as the settings want it, and what to do about it; "" if it can. May load libraries and
  // open devices to find out.
  std::string (*why_not)(const Settings& settings);
  // What it will use, for the log; null: there is nothing to say before it is made. REQUIRES: why_not() is empty.
  std::string (*describe)(const Settings& settings);
  // Collective over all ranks. `nics`: names of those that are nearest to this rank, the nearest first; empty: unknown.
  // Throws what the transport's constructor throws, or what why_not() says.
  std::unique_ptr<NetworkTransport> (*make)(int rank, const std::vector<int>& peers, const auth::SecretKey& key,
                                            const Settings& settings, const std::vector<std::string>& nics,
                                            const AllGather& all_gather, NetworkTransportEvents& events);
  // Why the NICs that it would use cannot reach memory of a GPU, as this is, and what to do about it; "" if they can. Null:
  // it moves data of host memory only. `too_far`: why a NIC is not to reach it, or "".
  // REQUIRES: there is memory for the range.
  std::string (*why_not_direct)(const Settings& settings, const std::vector<std::string>& nics,
                                const std::function<std::string(const std::string& nic)>& too_far,
                                const DeviceMemory& memory, const std::byte* begin, std::size_t bytes) = nullptr;
};

// A `make` of a transport that asks nothing of NICs.
template <typename Transport>
std::unique_ptr<NetworkTransport> Make(int rank, const std::vector<int>& peers, const auth::SecretKey& key,
                                       const Settings& settings, const std::vector<std::string>& /*nics*/,
                                       const AllGather& all_gather, NetworkTransportEvents& events) {
  return std::make_unique<Transport>(rank, peers, key, settings, all_gather, events);
}
// And of one that chooses among them.
template <typename Transport>
std::unique_ptr<NetworkTransport> MakeByNics(int rank, const std::vector<int>& peers, const auth::SecretKey& key,
                                             const Settings& settings, const std::vector<std::string>& nics,
                                             const AllGather& all_gather, NetworkTransportEvents& events) {
  return std::make_unique<Transport>(rank, peers, key, settings, nics, all_gather, events);
}

// A `make` of a transport that this build lacks.
template <std::string (*kWhyNot)(const Settings&)>
std::unique_ptr<NetworkTransport> CannotMake(int /*rank*/, const std::vector<int>& /*peers*/,
                                             const auth::SecretKey& /*key*/, const Settings& settings,
                                             const std::vector<std::string>& /*nics*/, const AllGather& /*all_gather*/,
                                             NetworkTransportEvents& /*events*/) {
  Throw(tuttiInvalidUsage, "{}", kWhyNot(settings));
}

}  // namespace tutti::progress
