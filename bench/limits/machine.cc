#include "bench/limits/machine.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace tutti::bench {
namespace {

std::string CpuModel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

}  // namespace

Json DescribeMachine() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ::sched_getaffinity(0, sizeof allowed, &allowed);
  utsname system{};
  ::uname(&system);
  constexpr double kGibi = 1 << 30;
  const double memory = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  return {{"cpu", CpuModel()},
          {"cores", CPU_COUNT(&allowed)},
          {"memory_gib", memory / kGibi},
          {"kernel", std::string(system.sysname) + " " + system.release + " " + system.machine}};
}

}  // namespace tutti::bench
