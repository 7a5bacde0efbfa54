#include "topology/graph/complete.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <span>

#include "topology/graph/assemble.h"
#include "topology/graph/link_constants.h"

namespace tutti::topology {
namespace {

// The meaning of PCI ids (the PCI ID Repository; NVIDIA's and cloud makers' data sheets).
constexpr int kNvidia = 0x10de;
struct KnownGpu {
  int device = 0;
  const char* name = nullptr;
  int sm = 0;
  int nvlinks = 0;  // on a board that joins all its GPUs: 4 directly, 8 by NVSwitches
};
constexpr std::array<KnownGpu, 18> kKnownGpus = {{
    {0x15f9, "P100 SXM2", 60, 0},  // P100 and V100 SXM2 are joined in meshes, which the id does not reveal
    {0x1db1, "V100 SXM2 16 GB", 70, 0},
    {0x1db5, "V100 SXM2 32 GB", 70, 0},
    {0x1db8, "V100 SXM3", 70, 6},
    {0x1eb8, "T4", 75, 0},
    {0x20b0, "A100 SXM4 40 GB", 80, 12},
    {0x20b2, "A100 SXM4 80 GB", 80, 12},
    {0x20b5, "A100 PCIe 80 GB", 80, 0},  // bridged in pairs at most; the pairs are unknown
    {0x20f1, "A100 PCIe 40 GB", 80, 0},
    {0x2235, "A40", 86, 0},
    {0x2236, "A10", 86, 0},
    {0x2237, "A10G", 86, 0},
    {0x26b9, "L40S", 89, 0},
    {0x27b8, "L4", 89, 0},
    {0x2330, "H100 SXM5", 90, 18},
    {0x2331, "H100 PCIe", 90, 0},
    {0x2335, "H200 SXM5", 90, 18},
    {0x2901, "B200", 100, 18},
}};
constexpr std::size_t kGpusOfMeshBoard = 4;
constexpr std::size_t kGpusOfSwitchedBoard = 8;

const KnownGpu* Know(const PciSlot& slot) {
  const auto found = std::find_if(kKnownGpus.begin(), kKnownGpus.end(), [&](const KnownGpu& gpu) {
    return slot.vendor == kNvidia && slot.device == gpu.device;
  });
  return found == kKnownGpus.end() ? nullptr : &*found;
}

// The class's upper byte is the kind of device, the second one its variant.
constexpr int kBaseClassShift = 16;
constexpr int kDisplayBaseClass = 0x03;
constexpr int kNetworkBaseClass = 0x02;
constexpr int kVariantMask = 0xffff00;
constexpr int kClassDisplay = 0x030000;  // a GPU with a display

bool MayBePort(const PciSlot& slot) { return slot.device_class >> kBaseClassShift == kNetworkBaseClass; }
bool IsKnown(const PciSlot& slot) { return slot.device_class != 0; }

template <typename Value>
void Fill(Value& value, const Value& detected, const Value& unknown) {
  if (value == unknown) value = detected;
}

void Fill(PciSlot& slot, const PciSlot& detected) {
  Fill(slot.device_class, detected.device_class, 0);
  Fill(slot.vendor, detected.vendor, 0);
  Fill(slot.device, detected.device, 0);
  Fill(slot.subsystem_vendor, detected.subsystem_vendor, 0);
  Fill(slot.subsystem_device, detected.subsystem_device, 0);
  Fill(slot.speed_gts, detected.speed_gts, 0.0);
  Fill(slot.width, detected.width, 0);
}

// Combines the notes on equal assumptions, so that people read a line and not a page.
class Assumptions {
 public:
  void Add(const std::string& who, const std::string& what) {
    const auto same = std::find_if(said_.begin(), said_.end(), [&](const Said& said) { return said.what == what; });
    if (same != said_.end()) {
      same->who.push_back(who);
    } else {
      said_.push_back({what, {who}});
    }
  }

  void AppendTo(std::vector<std::string>& notes) const {
    constexpr std::size_t kShown = 3;
    for (const auto& [what, who] : said_) {
      const auto shown = std::span(who).first(std::min(who.size(), kShown));
      const std::string subject = fmt::format("{}{}", fmt::join(shown, ", "), who.size() > kShown ? ", ..." : "");
      notes.push_back(who.size() == 1 ? fmt::format("{}: {}", subject, what)
                                      : fmt::format("{} ({} in all): {}", subject, who.size(), what));
    }
  }

 private:
  struct Said {
    std::string what;
    std::vector<std::string> who;
  };
  std::vector<Said> said_;  // few: a `what` names no device
};

void AssumeGpu(PciDescription& place, Assumptions& notes) {
  const KnownGpu* known = Know(place.slot);
  const bool told = place.gpu.has_value();
  if (!told) place.gpu.emplace();
  GpuDescription& gpu = *place.gpu;
  if (gpu.sm == 0 && known != nullptr) gpu.sm = known->sm;
  if (!gpu.gdr) gpu.gdr = true;
  if (!told) {
    notes.Add(place.bus_id, fmt::format("taken for a GPU by its class, {}, with GPUDirect RDMA",
                                        known != nullptr ? known->name : "of unknown kind"));
  }
}

void AssumePort(PciDescription& place, Assumptions& notes) {
  place.ports.push_back({.gdr = true});
  notes.Add(place.bus_id, "taken for a network card by its class, with one port and GPUDirect RDMA");
}

void AssumeSpeed(const PciDescription& place, PortDescription& port, Assumptions& notes) {
  if (port.speed_gbit != 0) return;
  port.speed_gbit = PortSpeedGbit(place.slot.speed_gts, place.slot.width);
  notes.Add(port.name.empty() ? place.bus_id : port.name,
            fmt::format("speed unknown, {} Gbit/s assumed{}", port.speed_gbit,
                        place.slot.speed_gts != 0 ? ", the speed of its slot" : ""));
}

std::vector<NvlinkDescription> Mesh(const std::vector<PciDescription*>& gpus, const PciDescription* self, int nvlinks) {
  std::vector<NvlinkDescription> links;
  for (const auto* other : gpus) {
    if (other == self) continue;
    links.push_back({NvlinkEnd::gpu, other->bus_id, nvlinks / static_cast<int>(gpus.size() - 1)});
  }
  return links;
}

// Boards of 4 or 8 equal SXM GPUs are joined completely; nothing is assumed about others.
void AssumeNvlinks(HostDescription& host) {
  std::vector<PciDescription*> gpus;
  ForEachPlaceOf(host, [&](PciDescription& place) {
    if (place.gpu) gpus.push_back(&place);
  });
  if (gpus.empty()) return;
  const bool all_silent = std::all_of(gpus.begin(), gpus.end(), [](const auto* place) { return !place->gpu->nvlinks; });
  if (!all_silent) return;
  const KnownGpu* known = Know(gpus.front()->slot);
  const bool equal = known != nullptr && std::all_of(gpus.begin(), gpus.end(),
                                                     [&](const auto* place) { return Know(place->slot) == known; });
  const bool switched = gpus.size() == kGpusOfSwitchedBoard;
  const bool mesh = gpus.size() == kGpusOfMeshBoard;
  if (!equal || known->nvlinks == 0 || (!switched && !mesh)) {
    host.notes.emplace_back("NVLinks unknown: none assumed");
    return;
  }
  for (auto* place : gpus) {
    if (switched) {
      place->gpu->nvlinks = {{NvlinkEnd::nvswitch, {}, known->nvlinks}};
    } else {
      place->gpu->nvlinks = Mesh(gpus, place, known->nvlinks);
    }
  }
  host.notes.push_back(fmt::format("NVLinks unknown: {} {} assumed to be joined by {} NVLinks each{}", gpus.size(),
                                   known->name, known->nvlinks, switched ? " through NVSwitches" : ""));
}

}  // namespace

bool IsDisplay(int device_class) { return device_class >> kBaseClassShift == kDisplayBaseClass; }

bool MayBeGpu(const PciSlot& slot) {
  const int variant = slot.device_class & kVariantMask;
  return variant == kClassGpu || (variant == kClassDisplay && (slot.vendor == kNvidia || slot.vendor == 0));
}

bool MayBeEnd(const PciSlot& slot) { return MayBeGpu(slot) || MayBePort(slot); }

void CompleteFrom(HostDescription& host, const HostDescription& detected) {
  Assumptions notes;
  std::map<std::string, const PciDescription*> places;
  ForEachPlaceOf(detected, [&](const PciDescription& place) { places.emplace(place.bus_id, &place); });
  ForEachPlaceOf(host, [&](PciDescription& place) {
    const auto found = places.find(place.bus_id);
    if (place.bus_id.empty() || found == places.end()) return;
    const PciDescription& real = *found->second;
    Fill(place.slot, real.slot);
    if (!place.is_end()) {
      place.gpu = real.gpu;
      place.ports = real.ports;
      if (place.is_end()) notes.Add(place.bus_id, "completed with the detected hardware");
    } else if (place.gpu && real.gpu) {
      Fill(place.gpu->number, real.gpu->number, kUnknown);
      Fill(place.gpu->sm, real.gpu->sm, 0);
      Fill(place.gpu->gdr, real.gpu->gdr, {});
      Fill(place.gpu->nvlinks, real.gpu->nvlinks, {});
    }
  });
  for (auto& cpu : host.cpus) {
    const auto real = std::find_if(detected.cpus.begin(), detected.cpus.end(),
                                   [&](const CpuDescription& candidate) { return candidate.numa == cpu.numa; });
    if (real == detected.cpus.end()) continue;
    Fill(cpu.package, real->package, kUnknown);
    Fill(cpu.cores, real->cores, {});
    Fill(cpu.caches, real->caches, {});
    if (!cpu.arch.empty()) continue;
    cpu.arch = real->arch;
    cpu.vendor = real->vendor;
    cpu.family = real->family;
    cpu.model = real->model;
  }
  notes.AppendTo(host.notes);
}

void CompleteByDefaults(HostDescription& host) {
  Assumptions notes;
  ForEachPlaceOf(host, [&](PciDescription& place) {
    const bool leaf = !place.is_end() && place.children.empty();
    if (place.gpu || (leaf && MayBeGpu(place.slot))) {
      AssumeGpu(place, notes);
    } else if (leaf && MayBePort(place.slot)) {
      AssumePort(place, notes);
    } else if (leaf && !IsKnown(place.slot)) {
      notes.Add(place.bus_id, "class and device unknown: left out");
    }
    if (place.slot.speed_gts == 0 && (place.is_end() || !place.children.empty()) && !place.bus_id.empty()) {
      notes.Add(place.bus_id, fmt::format("PCI speed unknown, {} GT/s assumed", kPciDefaultSpeedGts));
    }
    for (auto& port : place.ports) AssumeSpeed(place, port, notes);
  });
  for (const auto& cpu : host.cpus) {
    if (cpu.arch.empty()) notes.Add(fmt::format("NUMA{}", cpu.numa), "CPU unknown: the slowest socket link assumed");
  }
  notes.AppendTo(host.notes);
  AssumeNvlinks(host);
}

}  // namespace tutti::topology
