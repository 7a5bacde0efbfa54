#include "bench/driver/busy_cores.h"

#include <thread>

#include "bench/worker/pin.h"

namespace tutti::bench {

std::vector<Process> KeepLastCoresBusy(int count) {
  const std::vector<std::string> compute = {"sh", "-c", "while :; do :; done"};
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  std::vector<Process> processes;
  for (int i = 0; i < count; ++i) {
    PinToCore(cores - 1 - i % cores, processes.emplace_back(compute, Environment{}, Process::Output::show).pid());
  }
  return processes;
}

}  // namespace tutti::bench
