// ncclCommQueryProperties, for programs that query features before they use them.
#include <algorithm>
#include <cstddef>

#include "interop/nccl/convert.h"
#include "interop/nccl/failure.h"

// The fields that every version of the struct begins with. The rest describes features that Tutti lacks (the device
// API, multicast, networks reached from kernels): 0 in all versions. The caller's struct gives its size.
struct ncclCommProperties {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int rank;
  int nRanks;
  int cudaDev;
  int nvmlDev;
};

using namespace tutti::nccl;  // NOLINT: this file is the C boundary of that namespace

ncclResult_t ncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t* props) {
  constexpr std::size_t kMost = 4096;  // bytes; the largest known has under 200, so a larger one is invalid
  return Guard(comm, [&] {
    CheckGiven("props", props);
    if (props->magic != NCCL_API_MAGIC || props->size < sizeof *props || props->size > kMost) {
      Refuse(ncclInvalidArgument, "props was not initialised with NCCL_COMM_PROPERTIES_INITIALIZER (size {})",
             props->size);
    }
    ncclCommProperties known = {props->size, props->magic, props->version, 0, 0, 0, 0};
    Check(tuttiCommUserRank(ToTutti(comm), &known.rank));
    Check(tuttiCommCount(ToTutti(comm), &known.nRanks));
    const auto result = ncclCommCuDevice(comm, &known.cudaDev);
    if (result != ncclSuccess) return result;
    known.nvmlDev = known.cudaDev;
    auto* const bytes = reinterpret_cast<std::byte*>(props);
    std::fill(bytes + sizeof *props, bytes + props->size, std::byte{0});
    *props = known;
    return ncclSuccess;
  });
}
