#include "bench/worker/pin.h"

#include <sched.h>

#include <algorithm>

namespace tutti::bench {

void PinToCore(int rank, pid_t thread) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  int skip = rank % std::max(1, CPU_COUNT(&allowed));
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || skip-- > 0) continue;
    cpu_set_t mine;
    CPU_ZERO(&mine);
    CPU_SET(cpu, &mine);
    ::sched_setaffinity(thread, sizeof mine, &mine);
    return;
  }
}

}  // namespace tutti::bench
