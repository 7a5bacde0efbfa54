#include "topology/xml/xml.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "base/files/files.h"
#include "topology/graph/assemble.h"
#include "topology/graph/complete.h"
#include "topology/graph/link_constants.h"
#include "topology/graph/pci_text.h"
#include "topology/xml/xml_element.h"

namespace tutti::xml {
namespace {

// Bounds on a file's contents; each is far beyond real machines.
constexpr int kMaxPlaces = 16'384;  // PCI places in a file
constexpr int kMaxCpus = 256;
constexpr std::size_t kMaxCaches = 256;  // of a CPU
constexpr int kMaxNumber = 65'535;       // of devices and NUMA nodes
constexpr int kMaxRank = 1 << 24;
constexpr int kMaxSm = 999;
constexpr int kMaxNvlinks = 1024;  // between two devices
constexpr int kMaxSpeedMbit = 100'000'000;
constexpr double kMaxLatencyUs = 1e6;
constexpr double kMaxC2cMBs = 1e7;
constexpr int kMax16Bits = 0xffff;
constexpr int kMax24Bits = 0xffffff;
constexpr double kMbitPerGbit = 1000;
constexpr double kMBPerGB = 1000;
// By convention, this is a host's NVSwitches, where a virtual machine cannot see them.
constexpr std::string_view kAnyNvswitch = "fffffff:ff:ff.0";
constexpr int kClassPowerBridge = 0x068001;  // NVLink's bridge into a POWER CPU

std::string BusId(const XmlElement& element, const char* attribute) {
  std::string bus_id = topology::CanonicalBusId(element.RequiredText(attribute));
  if (bus_id.empty()) {
    element.Refuse("<{}> has {} that is not a PCI bus id (like 0000:10:1c.0)", element.name(), attribute);
  }
  return bus_id;
}

// Empty for an empty text.
std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const auto end = text.find(separator);
    parts.push_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return parts;
}

// Numbers and names that must be unique on one host.
struct Taken {
  std::set<std::string> bus_ids;
  std::set<int> numa;
  std::set<int> gpus;
  std::set<int> ports;
};

class Reader {
 public:
  Reader(std::string_view text, const std::string& name) : document_(text, name) {}

  std::vector<topology::HostDescription> Read() {
    const XmlElement root = document_.root();
    if (root.name() != "system") root.Refuse("the root element is <{}>, but a topology needs <system>", root.name());
    root.Integer("version", 1, 1, 1);
    for (const auto& child : root.children()) {
      if (child.name() == "cpu") {
        ReadCpu(child);
      } else {
        Ignore(child, HostOf(root));
      }
    }
    if (hosts_.empty()) root.Refuse("<system> has no <cpu>");
    return std::move(hosts_);
  }

 private:
  void Ignore(const XmlElement& element, topology::HostDescription& host) {
    host.notes.push_back(fmt::format("line {}: <{}> ignored", element.line(), element.name()));
  }

  // What one part of a file says that cannot be used does not cost the rest.
  template <typename... Args>
  void Note(const XmlElement& element, fmt::format_string<Args...> format, Args&&... args) {
    hosts_[current_].notes.push_back(
        fmt::format("line {}: {}", element.line(), fmt::format(format, std::forward<Args>(args)...)));
  }

  // Their host_hash distinguishes the CPUs of several hosts.
  topology::HostDescription& HostOf(const XmlElement& element) {
    const auto [found, added] = host_of_hash_.emplace(element.Text("host_hash"), hosts_.size());
    if (added) {
      hosts_.emplace_back();
      taken_.emplace_back();
    }
    current_ = found->second;
    return hosts_[current_];
  }

  // False, with a note, if another has it already.
  template <typename Key>
  bool Take(std::set<Key>& taken, const Key& key, const XmlElement& element, const char* what) {
    if (taken.insert(key).second) return true;
    Note(element, "{} {} occurs twice: ignored here", what, key);
    return false;
  }
  // `number`, or kUnknown if another has it already.
  int TakeNumber(std::set<int>& taken, int number, const XmlElement& element, const char* what) {
    return number == topology::kUnknown || Take(taken, number, element, what) ? number : topology::kUnknown;
  }

  void ReadCpu(const XmlElement& element) {
    topology::HostDescription& host = HostOf(element);
    if (++cpus_ > kMaxCpus) element.Refuse("more than {} CPUs in one file", kMaxCpus);
    topology::CpuDescription cpu;
    // A kernel without NUMA reports -1.
    cpu.numa = std::max(0, static_cast<int>(element.Integer("numaid", -1, kMaxNumber, 0)));
    if (!taken_[current_].numa.insert(cpu.numa).second) return ReadMoreOf(cpu.numa, element, host);
    cpu.rank = ReadRank(element);
    cpu.arch = element.Text("arch");
    cpu.vendor = element.Text("vendor");
    cpu.family = static_cast<int>(element.Integer("familyid", 0, kMax16Bits, 0));
    cpu.model = static_cast<int>(element.Integer("modelid", 0, kMax16Bits, 0));
    cpu.package = static_cast<int>(element.Integer("package", -1, kMaxNumber, topology::kUnknown));
    cpu.cores = ReadProcessors(element, "affinity", element.Text("affinity"));
    cpu.caches = ReadCaches(element);
    ReadDevices(element, cpu, host);
    host.cpus.push_back(std::move(cpu));
  }

  // A second <cpu> of the same NUMA node: its devices are the node's.
  void ReadMoreOf(int numa, const XmlElement& element, topology::HostDescription& host) {
    Note(element, "numaid {} occurs twice: the devices here are added to the first", numa);
    const auto same = std::ranges::find(host.cpus, numa, &topology::CpuDescription::numa);
    ReadDevices(element, *same, host);
  }

  void ReadDevices(const XmlElement& element, topology::CpuDescription& cpu, topology::HostDescription& host) {
    for (const auto& child : element.children()) {
      if (child.name() == "pci") {
        ReadPciInto(cpu.devices, child, host);
      } else if (child.name() == "gpu" || child.name() == "nic") {
        topology::PciDescription inside;
        ReadEnd(child, inside, host);
        if (inside.is_end()) cpu.devices.push_back(std::move(inside));
      } else {
        Ignore(child, host);
      }
    }
  }

  // Words of 32 processors in hexadecimal, the highest first: "000000ff,ffff0000".
  std::vector<int> ReadProcessors(const XmlElement& element, const char* attribute, std::string_view text) {
    constexpr int kWordBits = 32;
    constexpr std::size_t kMaxWords = 256;  // 8,192 processors, Linux's limit
    constexpr int kHex = 16;
    const auto words = Split(text, ',');
    if (words.size() > kMaxWords) element.Refuse("{} has more than {} words", attribute, kMaxWords);
    std::vector<int> cores;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const auto digits = words[words.size() - 1 - i];
      std::uint32_t word = 0;
      const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), word, kHex);
      if (status != std::errc() || end != digits.data() + digits.size()) {
        element.Refuse("{} is not a list of 32-bit words in hexadecimal, like 000000ff,ffff0000", attribute);
      }
      for (int bit = 0; bit < kWordBits; ++bit) {
        if ((word >> bit & 1U) != 0) cores.push_back(static_cast<int>(i) * kWordBits + bit);
      }
    }
    return cores;
  }

  // "0000000f;000000f0"
  std::vector<std::vector<int>> ReadCaches(const XmlElement& element) {
    const auto masks = Split(element.Text("caches"), ';');
    if (masks.size() > kMaxCaches) element.Refuse("caches has more than {} caches", kMaxCaches);
    std::vector<std::vector<int>> caches;
    for (const auto mask : masks) caches.push_back(ReadProcessors(element, "caches", mask));
    return caches;
  }

  int ReadRank(const XmlElement& element) {
    return TakeNumber(ranks_, static_cast<int>(element.Integer("rank", -1, kMaxRank, topology::kUnknown)), element,
                      "rank");
  }

  topology::PciSlot ReadSlot(const XmlElement& element) {
    topology::PciSlot slot;
    slot.device_class = static_cast<int>(element.Integer("class", 0, kMax24Bits, 0));
    slot.vendor = static_cast<int>(element.Integer("vendor", 0, kMax16Bits, 0));
    slot.device = static_cast<int>(element.Integer("device", 0, kMax16Bits, 0));
    slot.subsystem_vendor = static_cast<int>(element.Integer("subsystem_vendor", 0, kMax16Bits, 0));
    slot.subsystem_device = static_cast<int>(element.Integer("subsystem_device", 0, kMax16Bits, 0));
    const auto speed = topology::ParsePciSpeed(element.Text("link_speed"));
    if (!speed) Note(element, "link_speed is not 2.5, 5, 8, 16, 32 or 64 GT/s: unknown");
    slot.speed_gts = speed.value_or(0);
    slot.width = static_cast<int>(element.Integer("link_width", 0, kMaxNumber, 0));
    if (slot.width > topology::kPciMaxWidth) {
      // Virtual machines and links that are down have 63 and 255.
      Note(element, "link_width is {}, but a PCI link has at most {} lanes: unknown", slot.width,
           topology::kPciMaxWidth);
      slot.width = 0;
    }
    return slot;
  }

  // Adds the place to `places`, unless it cannot be used.
  void ReadPciInto(std::vector<topology::PciDescription>& places, const XmlElement& element,
                   topology::HostDescription& host) {
    if (++places_ > kMaxPlaces) element.Refuse("more than {} PCI devices in one file", kMaxPlaces);
    topology::PciDescription place;
    place.bus_id = BusId(element, "busid");
    if (!Take(taken_[current_].bus_ids, place.bus_id, element, "busid")) return;
    place.slot = ReadSlot(element);
    for (const auto& child : element.children()) {
      if (child.name() == "pci") {
        ReadPciInto(place.children, child, host);  // as deep as the document may be
      } else {
        ReadEnd(child, place, host);
      }
    }
    if (place.is_end() && !place.children.empty()) {
      Note(element, "{} is a bridge: the GPU or network card there is ignored", place.bus_id);
      place.gpu.reset();
      place.ports.clear();
    } else if (place.gpu && !place.ports.empty()) {
      Note(element, "{} is a GPU: the network card there is ignored", place.bus_id);
      place.ports.clear();
    }
    places.push_back(std::move(place));
  }

  void ReadEnd(const XmlElement& element, topology::PciDescription& place, topology::HostDescription& host) {
    if (element.name() == "gpu") {
      // Partitions of a GPU, or several ranks on it.
      if (place.gpu) return Note(element, "a second <gpu> at the same place: ignored, with its rank");
      place.gpu = ReadGpu(element, host);
    } else if (element.name() == "nic") {
      for (const auto& child : element.children()) {
        if (child.name() == "net") {
          place.ports.push_back(ReadPort(child));
        } else {
          Ignore(child, host);
        }
      }
    } else {
      Ignore(element, host);
    }
  }

  std::optional<bool> ReadGdr(const XmlElement& element) {
    return element.Has("gdr") ? std::optional<bool>(element.Integer("gdr", 0, 1, 0) != 0) : std::nullopt;
  }

  topology::GpuDescription ReadGpu(const XmlElement& element, topology::HostDescription& host) {
    if (++gpus_ > kMaxGpusInFile) element.Refuse("more than {} GPUs in one file", kMaxGpusInFile);
    topology::GpuDescription gpu;
    gpu.number =
        TakeNumber(taken_[current_].gpus, static_cast<int>(element.Integer("dev", -1, kMaxNumber, topology::kUnknown)),
                   element, "GPU dev");
    gpu.rank = ReadRank(element);
    gpu.sm = static_cast<int>(element.Integer("sm", 0, kMaxSm, 0));
    gpu.gdr = ReadGdr(element);
    gpu.nvlinks.emplace();
    for (const auto& child : element.children()) {
      if (child.name() == "nvlink") {
        ReadNvlink(child, *gpu.nvlinks, host);
      } else if (child.name() == "c2c") {
        const int count = static_cast<int>(child.Integer("count", 0, kMaxNvlinks, 1));
        const double bandwidth = child.Number("bw", 0, kMaxC2cMBs, 0) / kMBPerGB;
        if (bandwidth != 0) gpu.nvlinks->push_back({topology::NvlinkEnd::cpu, {}, count, bandwidth});
      } else {
        Ignore(child, host);
      }
    }
    return gpu;
  }

  void ReadNvlink(const XmlElement& element, std::vector<topology::NvlinkDescription>& links,
                  topology::HostDescription& host) {
    const int count = static_cast<int>(element.RequiredInteger("count", 0, kMaxNvlinks));
    const int target_class = static_cast<int>(element.Integer("tclass", 0, kMax24Bits, topology::kClassGpu));
    const std::string target = BusId(element, "target");
    if (target == kAnyNvswitch || target_class == topology::kClassNvswitch) {
      links.push_back({topology::NvlinkEnd::nvswitch, {}, count});
    } else if (target_class == kClassPowerBridge) {
      links.push_back({topology::NvlinkEnd::cpu, {}, count});
    } else if (topology::IsDisplay(target_class)) {
      links.push_back({topology::NvlinkEnd::gpu, target, count});
    } else {
      host.notes.push_back(
          fmt::format("line {}: NVLink to {} of class {:#08x} ignored", element.line(), target, target_class));
    }
  }

  topology::PortDescription ReadPort(const XmlElement& element) {
    if (++ports_ > kMaxPlaces) element.Refuse("more than {} network ports in one file", kMaxPlaces);
    topology::PortDescription port;
    port.name = element.Text("name");
    port.number =
        TakeNumber(taken_[current_].ports, static_cast<int>(element.Integer("dev", -1, kMaxNumber, topology::kUnknown)),
                   element, "net dev");
    port.port = static_cast<int>(element.Integer("port", 0, kMax16Bits, 0));
    port.speed_gbit = static_cast<double>(element.Integer("speed", 0, kMaxSpeedMbit, 0)) / kMbitPerGbit;
    port.latency = element.Number("latency", 0, kMaxLatencyUs, 0);
    port.gdr = ReadGdr(element);
    port.guid = element.Text("guid");
    return port;
  }

  XmlDocument document_;
  std::vector<topology::HostDescription> hosts_;
  std::vector<Taken> taken_;  // by host
  std::map<std::string, std::size_t, std::less<>> host_of_hash_;
  std::size_t current_ = 0;
  std::set<int> ranks_;
  int cpus_ = 0;
  int places_ = 0;
  int gpus_ = 0;
  int ports_ = 0;
};

}  // namespace

TopologyFile ParseTopology(std::string_view text, const std::string& name, const topology::HostDescription* detected) {
  auto hosts = Reader(text, name).Read();
  for (auto& host : hosts) {
    if (detected != nullptr) topology::CompleteFrom(host, *detected);
    topology::CompleteByDefaults(host);
  }
  TopologyFile file;
  file.system = topology::Assemble(hosts);
  for (auto& host : hosts) std::move(host.notes.begin(), host.notes.end(), std::back_inserter(file.notes));
  return file;
}

TopologyFile ReadTopologyFile(const std::string& path, const topology::HostDescription* detected) {
  return ParseTopology(ReadFile(path, kMaxXmlBytes), path, detected);
}

}  // namespace tutti::xml
