// What this process may use of its machine, as far as plans and waiting need to know it before there is a full
// topology.
//
// Thread-safety: functions without state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tutti {

// One bit per processor that the calling thread may run on.
using CpuMask = std::array<std::uint64_t, 16>;  // 1,024 processors, the C library's cpu_set_t

CpuMask AllowedCpus();
int CountCpus(const CpuMask& mask);
// Whole processors that the control group's quota is worth, at least 1; a large number without a quota.
int QuotaCpus();
// Bytes of the largest data cache that processor 0 can use; a documented default where the system does not tell.
std::size_t LastLevelCacheBytes();

}  // namespace tutti
