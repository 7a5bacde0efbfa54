#include "topology/detect/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>

#include "topology/graph/pci_text.h"

namespace tutti::detect {
namespace {

// The few declarations needed of NVML's stable C interface, by its reference manual (docs.nvidia.com/deploy/nvml-api).
using NvmlDevice = struct NvmlDeviceHandle*;
constexpr int kSuccess = 0;
constexpr unsigned kEnabled = 1;
constexpr unsigned kMaxLinks = 18;  // NVML_NVLINK_MAX_LINKS
constexpr unsigned kUuidBytes = 96;
struct NvmlPciInfo {
  std::array<char, 16> legacy_bus_id;
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned ids;
  unsigned subsystem_ids;
  std::array<char, 32> bus_id;
};
static_assert(sizeof(NvmlPciInfo) == 68 && offsetof(NvmlPciInfo, bus_id) == 36);
enum : unsigned { kRemoteGpu = 0, kRemoteCpu = 1, kRemoteSwitch = 2, kRemoteUnknown = 255 };

class Nvml {
 public:
  explicit Nvml(const std::string& library) : handle_(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    complete_ = handle_ != nullptr;
    if (!complete_) return;
    Find(init_, "nvmlInit_v2");
    Find(shutdown_, "nvmlShutdown");
    Find(count_, "nvmlDeviceGetCount_v2");
    Find(device_, "nvmlDeviceGetHandleByIndex_v2");
    Find(pci_, "nvmlDeviceGetPciInfo_v3");
    Find(capability_, "nvmlDeviceGetCudaComputeCapability");
    Find(uuid_, "nvmlDeviceGetUUID");
    Find(link_state_, "nvmlDeviceGetNvLinkState");
    Find(link_pci_, "nvmlDeviceGetNvLinkRemotePciInfo_v2");
    const bool complete = complete_;
    Find(link_type_, "nvmlDeviceGetNvLinkRemoteDeviceType");  // drivers before 460 lack it
    complete_ = complete && init_() == kSuccess;
  }
  ~Nvml() {
    if (complete_) shutdown_();
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  std::vector<NvmlGpu> Gpus() const {
    std::vector<NvmlGpu> gpus;
    unsigned count = 0;
    if (!complete_ || count_(&count) != kSuccess) return gpus;
    std::vector<NvmlDevice> devices;
    for (unsigned i = 0; i < count; ++i) {
      NvmlDevice device = nullptr;
      NvmlPciInfo pci{};
      // A GPU that this process may not use (a container's) has no handle.
      if (device_(i, &device) != kSuccess || pci_(device, &pci) != kSuccess) continue;
      NvmlGpu gpu{.bus_id = topology::MakeBusId(pci.domain, pci.bus, pci.device, 0)};
      int major = 0;
      int minor = 0;
      constexpr int kMajor = 10;
      if (capability_(device, &major, &minor) == kSuccess) gpu.sm = major * kMajor + minor;
      std::array<char, kUuidBytes> uuid{};
      if (uuid_(device, uuid.data(), kUuidBytes) == kSuccess) gpu.uuid = uuid.data();
      devices.push_back(device);
      gpus.push_back(std::move(gpu));
    }
    for (std::size_t i = 0; i < gpus.size(); ++i) gpus[i].nvlinks = Links(devices[i], gpus);
    return gpus;
  }

 private:
  struct Close {
    void operator()(void* handle) const { dlclose(handle); }
  };

  template <typename Function>
  void Find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(handle_.get(), name));
    complete_ = complete_ && function != nullptr;
  }

  std::vector<topology::NvlinkDescription> Links(NvmlDevice device, const std::vector<NvmlGpu>& gpus) const {
    std::vector<topology::NvlinkDescription> links;
    for (unsigned i = 0; i < kMaxLinks; ++i) {
      unsigned state = 0;
      NvmlPciInfo remote{};
      if (link_state_(device, i, &state) != kSuccess || state != kEnabled) continue;
      if (link_pci_(device, i, &remote) != kSuccess) continue;
      topology::NvlinkDescription link{.bus_id = topology::MakeBusId(remote.domain, remote.bus, remote.device, 0),
                                       .count = 1};
      link.end = EndOf(device, i, link.bus_id, gpus);
      if (link.end != topology::NvlinkEnd::gpu) link.bus_id.clear();  // one device stands for all switches
      const auto same = std::find_if(links.begin(), links.end(), [&](const topology::NvlinkDescription& other) {
        return other.end == link.end && other.bus_id == link.bus_id;
      });
      if (same != links.end()) {
        ++same->count;
      } else {
        links.push_back(std::move(link));
      }
    }
    return links;
  }

  topology::NvlinkEnd EndOf(NvmlDevice device, unsigned link, const std::string& bus_id,
                            const std::vector<NvmlGpu>& gpus) const {
    unsigned type = kRemoteUnknown;
    if (link_type_ != nullptr) link_type_(device, link, &type);
    if (type == kRemoteGpu) return topology::NvlinkEnd::gpu;
    if (type == kRemoteCpu) return topology::NvlinkEnd::cpu;
    if (type == kRemoteSwitch) return topology::NvlinkEnd::nvswitch;
    const bool is_gpu = std::any_of(gpus.begin(), gpus.end(), [&](const NvmlGpu& gpu) { return gpu.bus_id == bus_id; });
    return is_gpu ? topology::NvlinkEnd::gpu : topology::NvlinkEnd::nvswitch;
  }

  std::unique_ptr<void, Close> handle_;
  bool complete_ = false;  // all required functions are there, and NVML is initialised
  int (*init_)() = nullptr;
  int (*shutdown_)() = nullptr;
  int (*count_)(unsigned*) = nullptr;
  int (*device_)(unsigned, NvmlDevice*) = nullptr;
  int (*pci_)(NvmlDevice, NvmlPciInfo*) = nullptr;
  int (*capability_)(NvmlDevice, int*, int*) = nullptr;
  int (*uuid_)(NvmlDevice, char*, unsigned) = nullptr;
  int (*link_state_)(NvmlDevice, unsigned, unsigned*) = nullptr;
  int (*link_pci_)(NvmlDevice, unsigned, NvmlPciInfo*) = nullptr;
  int (*link_type_)(NvmlDevice, unsigned, unsigned*) = nullptr;
};

}  // namespace

std::vector<NvmlGpu> QueryNvml(const std::string& library) { return Nvml(library).Gpus(); }

}  // namespace tutti::detect
