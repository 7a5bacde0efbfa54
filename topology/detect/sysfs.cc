#include "topology/detect/sysfs.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <system_error>

#include "topology/graph/complete.h"
#include "topology/graph/link_constants.h"
#include "topology/graph/pci_text.h"

namespace tutti::detect {
namespace {

namespace fs = std::filesystem;

std::string FirstLine(const fs::path& path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

// A whole number, decimal or with 0x, at the start of the file; 0 without it.
int NumberIn(const fs::path& path) {
  constexpr int kHex = 16;
  constexpr int kDecimal = 10;
  const std::string line = FirstLine(path);
  const bool hex = line.starts_with("0x");
  int number = 0;
  std::from_chars(line.data() + (hex ? 2 : 0), line.data() + line.size(), number, hex ? kHex : kDecimal);
  return number;
}

std::vector<fs::path> Entries(const fs::path& directory) {
  std::error_code failed;
  std::vector<fs::path> entries;
  for (fs::directory_iterator entry(directory, failed); !failed && entry != fs::directory_iterator();
       entry.increment(failed)) {
    entries.push_back(entry->path());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

fs::path Canonical(const fs::path& path) {
  std::error_code failed;
  return fs::canonical(path, failed);
}

struct PciStep {
  std::string bus_id;
  fs::path directory;
};

// The PCI devices on the way to a directory below /sys/devices, the outermost first.
std::vector<PciStep> PciWay(const fs::path& directory) {
  std::vector<PciStep> way;
  fs::path so_far;
  for (const auto& part : directory) {
    so_far /= part;
    std::string bus_id = topology::CanonicalBusId(part.string());
    if (!bus_id.empty()) way.push_back({std::move(bus_id), so_far});
  }
  return way;
}

topology::PciSlot ReadSlot(const fs::path& device) {
  topology::PciSlot slot;
  slot.device_class = NumberIn(device / "class");
  slot.vendor = NumberIn(device / "vendor");
  slot.device = NumberIn(device / "device");
  slot.subsystem_vendor = NumberIn(device / "subsystem_vendor");
  slot.subsystem_device = NumberIn(device / "subsystem_device");
  // The speed that both ends can do, because an idle link is slowed down; but the current number of lanes.
  slot.speed_gts = topology::ParsePciSpeed(FirstLine(device / "max_link_speed")).value_or(0);
  const int width = NumberIn(device / "current_link_width");
  if (0 < width && width <= topology::kPciMaxWidth) slot.width = width;  // 255: the link is down
  return slot;
}

topology::PciDescription& ChildAt(std::vector<topology::PciDescription>& children, const PciStep& step) {
  const auto found = std::find_if(children.begin(), children.end(),
                                  [&](const topology::PciDescription& child) { return child.bus_id == step.bus_id; });
  if (found != children.end()) return *found;
  children.push_back({.bus_id = step.bus_id, .slot = ReadSlot(step.directory)});
  return children.back();
}

// "0c42:a103:0065:bcfe"
std::string Guid(std::string text) {
  std::erase(text, ':');
  return text.empty() ? text : "0x" + text;
}

std::string BusIdOf(const fs::path& directory) {
  const auto way = PciWay(Canonical(directory));
  return way.empty() ? std::string() : way.back().bus_id;
}

std::vector<NetworkCard> ReadInfiniband(const std::string& root) {
  constexpr std::string_view kActive = "4: ACTIVE";  // the kernel's words, drivers/infiniband/core/sysfs.c
  const bool gdr = HasGpuDirectRdma(root);
  std::vector<NetworkCard> cards;
  for (const auto& device : Entries(fs::path(root) / "class/infiniband")) {
    NetworkCard card{BusIdOf(device), {}};
    for (const auto& port : Entries(device / "ports")) {
      if (FirstLine(port / "state") != kActive) continue;
      card.ports.push_back({.name = device.filename(),
                            .port = std::atoi(port.filename().c_str()),
                            .speed_gbit = static_cast<double>(NumberIn(port / "rate")),  // "100 Gb/sec (4X EDR)"
                            .gdr = gdr,
                            .guid = Guid(FirstLine(device / "sys_image_guid"))});
    }
    if (!card.ports.empty()) cards.push_back(std::move(card));
  }
  return cards;
}

enum class Nature { physical, virtual_interface, loopback };

struct Interface {
  Nature nature = Nature::physical;
  NetworkCard card;
};

std::optional<Interface> ReadInterface(const fs::path& directory) {
  constexpr int kLoopbackType = 772;  // ARPHRD_LOOPBACK
  constexpr double kMbitPerGbit = 1000;
  if (!fs::is_directory(directory)) return std::nullopt;  // bonding has a file there
  const std::string state = FirstLine(directory / "operstate");
  if (state != "up" && state != "unknown") return std::nullopt;
  Interface interface;
  interface.card.bus_id = BusIdOf(directory);
  if (NumberIn(directory / "type") == kLoopbackType) {
    interface.nature = Nature::loopback;
  } else if (interface.card.bus_id.empty()) {
    interface.nature = Nature::virtual_interface;
  }
  const int speed = NumberIn(directory / "speed");  // absent or -1 where the driver does not know
  interface.card.ports = {
      {.name = directory.filename(), .speed_gbit = std::max(speed, 0) / kMbitPerGbit, .gdr = false}};
  return interface;
}

}  // namespace

std::vector<RootPlace> ReadPciTree(const std::string& root) {
  std::vector<RootPlace> places;
  for (const auto& link : Entries(fs::path(root) / "bus/pci/devices")) {
    if (!topology::MayBeEnd({.device_class = NumberIn(link / "class"), .vendor = NumberIn(link / "vendor")})) continue;
    const auto way = PciWay(Canonical(link));
    if (way.empty()) continue;
    auto found = std::find_if(places.begin(), places.end(),
                              [&](const RootPlace& place) { return place.place.bus_id == way.front().bus_id; });
    if (found == places.end()) {
      const std::string numa = FirstLine(link / "numa_node");
      places.push_back({numa.empty() ? -1 : std::atoi(numa.c_str()),
                        {.bus_id = way.front().bus_id, .slot = ReadSlot(way.front().directory)}});
      found = places.end() - 1;
    }
    topology::PciDescription* at = &found->place;
    for (std::size_t i = 1; i < way.size(); ++i) at = &ChildAt(at->children, way[i]);
  }
  return places;
}

std::vector<NetworkCard> ReadNetwork(const std::string& root) {
  std::vector<NetworkCard> cards = ReadInfiniband(root);
  const auto is_known = [&](const std::string& bus_id) {
    return std::any_of(cards.begin(), cards.end(), [&](const NetworkCard& card) { return card.bus_id == bus_id; });
  };
  std::map<Nature, std::vector<NetworkCard>> by_nature;
  for (const auto& directory : Entries(fs::path(root) / "class/net")) {
    auto interface = ReadInterface(directory);
    if (!interface || (interface->nature == Nature::physical && is_known(interface->card.bus_id))) continue;
    by_nature[interface->nature].push_back(std::move(interface->card));
  }
  if (auto& physical = by_nature[Nature::physical]; !physical.empty()) {
    cards.insert(cards.end(), physical.begin(), physical.end());
  }
  if (!cards.empty()) return cards;
  auto& virtual_interfaces = by_nature[Nature::virtual_interface];
  return virtual_interfaces.empty() ? by_nature[Nature::loopback] : virtual_interfaces;
}

bool HasGpuDirectRdma(const std::string& root) {
  return fs::exists(fs::path(root) / "module/nvidia_peermem") || fs::exists(fs::path(root) / "module/nv_peer_mem");
}

}  // namespace tutti::detect
