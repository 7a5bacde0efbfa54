#include "src/plan/plan_table.h"

namespace tutti::plan {

static_assert(tuttiNumTransports <= TUTTI_COUNTED_TRANSPORTS && tuttiNumAlgorithms <= TUTTI_COUNTED_ALGORITHMS);

void AddTraffic(const tuttiCounters_t& more, tuttiCounters_t& counters) {
  counters.operations += more.operations;
  for (std::size_t a = 0; a < TUTTI_COUNTED_ALGORITHMS; ++a) {
    counters.operationsByAlgorithm[a] += more.operationsByAlgorithm[a];
    for (std::size_t t = 0; t < TUTTI_COUNTED_TRANSPORTS; ++t) {
      counters.bytesSent[t][a] += more.bytesSent[t][a];
      counters.bytesReceived[t][a] += more.bytesReceived[t][a];
    }
  }
}

}  // namespace tutti::plan
