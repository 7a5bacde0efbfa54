// Measures plain TCP between two hosts, as the yardstick for every library that uses it. One connection, one thread per
// side, none of our libraries: 8 bytes back and forth by polling, then a stream.
//
// Thread-safety: one thread.
#pragma once

#include "bench/worker/control_socket.h"

namespace tutti::bench {

struct TcpLimits {
  double round_trip_us = 0;  // median
  double stream_gbps = 0;    // GB/s, one way
};
Json ToJson(const TcpLimits& limits);
TcpLimits TcpLimitsFromJson(const Json& json);

// The accepting side. Throws std::runtime_error.
class TcpProbeServer {
 public:
  TcpProbeServer();
  // This host's name and port, for the other side.
  Json Address() const;
  // Blocks until the client has measured.
  void Serve();

 private:
  Descriptor listener_;
};

// The connecting and measuring side. Throws std::runtime_error.
TcpLimits ProbeTcp(const Json& address);

}  // namespace tutti::bench
