#include "topology/detect/host.h"

#include <sched.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

namespace tutti::detect {
namespace {

// The size of a small server's share; used only where sysfs has no cache directory.
constexpr std::size_t kDefaultCacheBytes = std::size_t{16} << 20;
// The most that a processor has for each core: 1,152 MiB for 96 cores in AMD's EPYC 9684X.
constexpr std::size_t kMostCacheOfACore = std::size_t{12} << 20;

std::string FirstLine(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

// "32768K", "1M" or plain bytes; 0 if it is none of them.
std::size_t ParseCacheSize(const std::string& text) {
  char* end = nullptr;
  const auto number = std::strtoull(text.c_str(), &end, 10);
  if (end == text.c_str()) return 0;
  return *end == 'K' ? number << 10 : *end == 'M' ? number << 20 : number;
}

struct DataCache {
  int level;
  std::size_t bytes;
};

// Those of processor 0.
std::vector<DataCache> DataCaches() {
  constexpr int kMaxCaches = 8;
  std::vector<DataCache> caches;
  for (int i = 0; i < kMaxCaches; ++i) {
    const std::string directory = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i);
    if (FirstLine(directory + "/type") == "Instruction") continue;
    caches.push_back(
        {std::atoi(FirstLine(directory + "/level").c_str()), ParseCacheSize(FirstLine(directory + "/size"))});
  }
  return caches;
}

#if defined(__x86_64__)
struct CpuId {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

std::string Vendor() {
  CpuId id;
  __get_cpuid(0, &id.eax, &id.ebx, &id.ecx, &id.edx);
  std::string name(3 * sizeof id.ebx, '\0');
  std::memcpy(name.data(), &id.ebx, sizeof id.ebx);
  std::memcpy(name.data() + sizeof id.ebx, &id.edx, sizeof id.edx);
  std::memcpy(name.data() + 2 * sizeof id.ebx, &id.ecx, sizeof id.ecx);
  return name;
}

// Intel's manual, volume 2, CPUID: leaf 7, in EBX ERMS and AVX512F, in EDX FSRM.
constexpr unsigned kErms = 1U << 9;
constexpr unsigned kAvx512f = 1U << 16;
constexpr unsigned kFsrm = 1U << 4;

CpuId StructuredFeatures() {
  CpuId id;
  __get_cpuid_count(7, 0, &id.eax, &id.ebx, &id.ecx, &id.edx);
  return id;
}
#endif

}  // namespace

CpuMask AllowedCpus() {
  CpuMask mask{};
  cpu_set_t set;
  static_assert(sizeof(set) == sizeof(mask));
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) CPU_SET(0, &set);
  std::memcpy(mask.data(), &set, sizeof mask);
  return mask;
}

int CountCpus(const CpuMask& mask) {
  int count = 0;
  for (const auto word : mask) count += std::popcount(word);
  return count;
}

std::vector<int> ListCpus(const CpuMask& mask) {
  constexpr std::size_t kWordBits = 64;
  std::vector<int> cpus;
  for (std::size_t cpu = 0; cpu < mask.size() * kWordBits; ++cpu) {
    if ((mask[cpu / kWordBits] >> cpu % kWordBits & 1U) != 0) cpus.push_back(static_cast<int>(cpu));
  }
  return cpus;
}

int QuotaCpus() {
  // "quota period" in microseconds, or "max period" (cgroup v2).
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return std::numeric_limits<int>::max();
  return std::max(1, static_cast<int>(std::strtod(quota.c_str(), nullptr) / period));
}

int ThreadsGranted() {
  // "4", or "4,2" for nested regions.
  const char* const text = std::getenv("OMP_NUM_THREADS");
  const long threads = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
  return threads < 1 ? std::numeric_limits<int>::max()
                     : static_cast<int>(std::min<long>(threads, std::numeric_limits<int>::max()));
}

std::size_t LastLevelCacheBytes() {
  std::size_t largest = 0;
  for (const auto& [level, bytes] : DataCaches()) largest = std::max(largest, bytes);
  return largest != 0 ? largest : kDefaultCacheBytes;
}

std::size_t CoreCacheBytes() {
  constexpr int kSecondLevel = 2;
  for (const auto& [level, bytes] : DataCaches()) {
    if (level == kSecondLevel) return bytes;
  }
  return 0;
}

std::size_t CacheShareBytes(std::size_t reported, int cores) {
  return std::min(reported, static_cast<std::size_t>(std::max(1, cores)) * kMostCacheOfACore);
}

std::size_t CacheShareBytes(int cores) { return CacheShareBytes(LastLevelCacheBytes(), cores); }

bool HasFastStringCopies() {
#if defined(__x86_64__)
  const auto features = StructuredFeatures();
  return Vendor() == "GenuineIntel" && (features.ebx & kErms) != 0 && (features.edx & kFsrm) != 0;
#else
  return false;
#endif
}

bool HasWideCaches() {
#if defined(__x86_64__)
  // Zen 4 is AMD's first core with AVX-512.
  return Vendor() == "AuthenticAMD" && (StructuredFeatures().ebx & kAvx512f) != 0;
#else
  return false;
#endif
}

std::string ArchitectureName(std::string_view kernel_name) {
  if (kernel_name == "aarch64") return "arm64";
  if (kernel_name == "ppc64le") return "ppc64";
  return std::string(kernel_name);
}

}  // namespace tutti::detect
