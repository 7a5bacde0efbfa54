// Runs of ranks on two hosts, between which the test plug-in (test_net.h) carries the data.
#pragma once

#include <array>
#include <string>
#include <utility>

#include "testing/ranks.h"

namespace tutti::testing {

inline std::string TestNet(int version) {
  return TUTTI_TEST_NETS "/libnccl-net-testv" + std::to_string(version) + ".so";
}

inline RunOptions OnPlugin(const std::string& plugin, const std::string& misbehaviour, bool threads = false) {
  RunOptions options;
  options.threads = threads;
  options.environment = {{"TUTTI_VIRTUAL_HOSTS", "2"}, {"TUTTI_NET_PLUGIN", plugin}, {"TUTTI_TEST_NET", misbehaviour}};
  return options;
}

// What a communicator has sent through a plug-in.
inline std::uint64_t BytesThroughPlugin(tuttiComm_t comm) {
  tuttiCounters_t counters{};
  counters.size = sizeof counters;
  EXPECT_TRUE(Ok(tuttiCommGetCounters(comm, &counters)));
  std::uint64_t sent = 0;
  for (const auto bytes : counters.bytesSent[tuttiTransportPlugin]) sent += bytes;
  return sent;
}

}  // namespace tutti::testing
