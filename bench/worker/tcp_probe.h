// What plain TCP does between two hosts: the yardstick of every library that uses it. One connection, one thread a side,
// no library of ours: 8 bytes to and fro by polling, then a stream.
//
// Thread-safety: one thread.
#pragma once

#include "bench/worker/channel.h"

namespace tutti::bench {

struct TcpLimits {
  double round_trip_us = 0;  // median
  double stream_gbps = 0;    // GB/s, one way
};
Json ToJson(const TcpLimits& limits);
TcpLimits TcpLimitsFromJson(const Json& json);

// The side that is called. Throws std::runtime_error.
class TcpProbeServer {
 public:
  TcpProbeServer();
  // This host's name and the port, for the other side.
  Json Address() const;
  // Blocks until the caller has measured.
  void Serve();

 private:
  Descriptor listener_;
};

// The side that calls and measures. Throws std::runtime_error.
TcpLimits ProbeTcp(const Json& address);

}  // namespace tutti::bench
