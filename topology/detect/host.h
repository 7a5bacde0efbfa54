// The part of its machine that this process may use, as far as plans and waiting need it before there is a full
// topology.
//
// Thread-safety: functions without state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::detect {

// One bit per processor that the calling thread may run on.
using CpuMask = std::array<std::uint64_t, 16>;  // 1,024 processors, the C library's cpu_set_t

CpuMask AllowedCpus();
int CountCpus(const CpuMask& mask);
std::vector<int> ListCpus(const CpuMask& mask);  // ascending
// Whole processors in the control group's quota, at least 1; a large number without a quota.
int QuotaCpus();
// What the user grants each process by OMP_NUM_THREADS, at least 1; a large number if it is not set.
int ThreadsGranted();
// Bytes of the largest data cache of processor 0; a documented default where the system does not report it.
std::size_t LastLevelCacheBytes();
// Bytes of the second-level cache of processor 0, which most processors have for each core; 0 where the system does not
// report it.
std::size_t CoreCacheBytes();
// The part of a last-level cache of `reported` bytes that `cores` cores can count on. A virtual machine reports the whole
// cache of a processor that it shares with others: 260 MiB beside two cores.
std::size_t CacheShareBytes(std::size_t reported, int cores);
// The same for this machine's last-level cache.
std::size_t CacheShareBytes(int cores);
// Whether `rep movsb`, by which Linux copies between processes, is fast for any length, also from lines that another core
// has written. (Intel's processors with ERMS and FSRM. AMD's Zen 4 has both bits, but its copies between processes were slow:
// docs/notebook/performance/slots.md.)
bool HasFastStringCopies();
// Whether the caches move 64 bytes a cycle: AMD's Zen 4 and later. For other processors this says no; nobody has looked.
bool HasWideCaches();
// The name that topology files use for the kernel's name of an architecture: "arm64" for "aarch64".
std::string ArchitectureName(std::string_view kernel_name);

}  // namespace tutti::detect
