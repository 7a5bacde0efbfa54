#include "interop/nccl/coll_config.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstring>

#include "interop/nccl/config.h"
#include "interop/nccl/failure.h"

namespace tutti::nccl {
namespace {

struct CollNumber {
  const char* name;
  std::size_t offset;
  int low, high;
};
constexpr CollNumber kCollNumbers[] = {
    {"minCTAs", offsetof(ncclCollConfig_t, minCTAs), 1, INT_MAX},
    {"maxCTAs", offsetof(ncclCollConfig_t, maxCTAs), 1, INT_MAX},
    {"nvlsCTAs", offsetof(ncclCollConfig_t, nvlsCTAs), 1, INT_MAX},
    {"cgaClusterSize", offsetof(ncclCollConfig_t, cgaClusterSize), 0, 8},
    {"forceAlgSelection", offsetof(ncclCollConfig_t, forceAlgSelection), 0, 1},
    {"CTAPolicy", offsetof(ncclCollConfig_t, CTAPolicy), 0, kCtaPolicies},
};

}  // namespace

void CheckCollConfig(const ncclCollConfig_t& config) {
  constexpr std::size_t kEventAt = offsetof(ncclCollConfig_t, launchCompletionEvent);  // 2.31 has all fields but this
  if (config.magic != NCCL_API_MAGIC || config.size < kEventAt) {
    Refuse(ncclInvalidArgument, "config was not initialised with NCCL_COLLCONFIG_INITIALIZER (size {})", config.size);
  }
  for (const CollNumber& field : kCollNumbers) {
    int value;
    std::memcpy(&value, reinterpret_cast<const std::byte*>(&config) + field.offset, sizeof value);
    if (value == NCCL_CONFIG_UNDEF_INT || (value >= field.low && value <= field.high)) continue;
    Refuse(ncclInvalidArgument, "config.{} is {}; it takes {} to {}", field.name, value, field.low, field.high);
  }
  const bool both = config.minCTAs != NCCL_CONFIG_UNDEF_INT && config.maxCTAs != NCCL_CONFIG_UNDEF_INT;
  if (both && config.minCTAs > config.maxCTAs) {
    Refuse(ncclInvalidArgument, "config.minCTAs is {}, more than config.maxCTAs, {}", config.minCTAs, config.maxCTAs);
  }
  const bool selects = config.algSelection != nullptr && *config.algSelection != '\0';
  if (selects && config.forceAlgSelection != 0) {
    Refuse(ncclInvalidUsage,
           "config.algSelection is \"{}\": Tutti does not select algorithms by call; force one for the process with "
           "TUTTI_ALGO, or set forceAlgSelection to 0",
           config.algSelection);
  }
}

cudaEvent_t LaunchEventOf(const ncclCollConfig_t& config) {
  return config.size < sizeof config ? nullptr : config.launchCompletionEvent;
}

// By the driver that the program uses. A program that has an event has loaded it.
void RecordLaunch(cudaEvent_t event, cudaStream_t stream) {
  using EventRecord = int (*)(cudaEvent_t, cudaStream_t);
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  const auto record = reinterpret_cast<EventRecord>(driver == nullptr ? nullptr : dlsym(driver, "cuEventRecord"));
  const int result = record == nullptr ? 0 : record(event, stream);
  if (driver != nullptr) dlclose(driver);
  if (record == nullptr)
    Refuse(ncclInvalidUsage, "config.launchCompletionEvent is given, but no CUDA driver is loaded");
  if (result != 0) {
    Refuse(ncclUnhandledCudaError, "config.launchCompletionEvent cannot be recorded: cuEventRecord returned {}",
           result);
  }
}

}  // namespace tutti::nccl
