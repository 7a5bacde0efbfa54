#include "transports/cuda/line128_support.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/all_gather.h"

namespace tutti::cuda_transport {
namespace {

// The first GPUs whose NVLinks NCCL trusts with such lines, as a compute capability's major number.
constexpr int kOldestMajor = 7;

// False also if this process does not see the other GPU: then it cannot tell.
bool JoinedByNvlink(const CudaDevice& device, const CuUuid& uuid) {
  const auto& driver = device.driver();
  CuDevice own = 0;
  int count = 0;
  driver.Check(driver.cuDeviceGet(&own, device.ordinal()), "cuDeviceGet");
  driver.Check(driver.cuDeviceGetCount(&count), "cuDeviceGetCount");
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CuDevice other = 0;
    CuUuid others{};
    driver.Check(driver.cuDeviceGet(&other, ordinal), "cuDeviceGet");
    driver.Check(driver.cuDeviceGetUuid(&others, other), "cuDeviceGetUuid");
    if (std::memcmp(&others, &uuid, sizeof uuid) != 0) continue;
    // All atomic operations work across NVLink, but not across PCIe.
    int atomics = 0;
    return driver.cuDeviceGetP2PAttribute(&atomics, kCuP2pAllAtomics, own, other) == kCuSuccess && atomics != 0;
  }
  return false;
}

}  // namespace

std::string WhyNoLines128(const CudaDevice& device, int rank, const shm::Hosts& hosts, bool p2p,
                          const AllGather& all_gather) {
  struct Introduction {
    CuUuid uuid;
    std::int32_t major;
    bool p2p;
  };
  const auto all = GatherValues(all_gather, Introduction{device.uuid(), device.Attribute(kCuMajor), p2p});
  // The first rank of this host to whose GPU this one has no NVLink, or -1.
  std::int32_t apart = -1;
  for (const int r : hosts.RanksWith(rank)) {
    const CuUuid& theirs = all[static_cast<std::size_t>(r)].uuid;
    if (apart < 0 && p2p && !device.IsSame(theirs) && !JoinedByNvlink(device, theirs)) apart = r;
  }
  const auto first_apart = GatherValues(all_gather, apart);
  for (std::size_t r = 0; r < all.size(); ++r) {
    const bool alone = std::ranges::count(hosts.host_of, hosts.host_of[r]) == 1;
    if (!all[r].p2p && !alone) return fmt::format("rank {} has TUTTI_GPU_P2P=0", r);
    if (all[r].major < kOldestMajor)
      return fmt::format("rank {}'s GPU has compute capability {}, older than 7.0", r, all[r].major);
    if (first_apart[r] >= 0)
      return fmt::format("rank {} sees no NVLink between its GPU and that of rank {}", r, first_apart[r]);
  }
  return "";
}

void RequireLines128(const std::string& why_not, const DeviceFabric& fabric) {
  if (why_not.empty() && fabric.hosts_reach()) return;
  Throw(tuttiInvalidUsage,
        "TUTTI_PROTO=inline needs one GPU for all ranks of a host, or NVLink between all its GPUs: {}",
        why_not.empty() ? "the driver gives some rank no access to another's GPU" : why_not);
}

}  // namespace tutti::cuda_transport
