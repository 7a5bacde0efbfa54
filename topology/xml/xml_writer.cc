#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <pugixml.hpp>
#include <sstream>

#include "topology/graph/link_constants.h"
#include "topology/xml/xml.h"

namespace tutti::xml {
namespace {

void Set(pugi::xml_node node, const char* attribute, const std::string& value) {
  node.append_attribute(attribute).set_value(value.c_str());
}
void Set(pugi::xml_node node, const char* attribute, long long value) {
  Set(node, attribute, fmt::format("{}", value));
}

std::string Hex(int value, int digits) { return fmt::format("0x{:0{}x}", value, digits); }

// Words of 32 processors, the highest first.
std::string Affinity(const std::vector<int>& cores) {
  constexpr int kWordBits = 32;
  std::vector<std::uint32_t> words(cores.empty() ? 1 : cores.back() / kWordBits + 1);
  for (const int core : cores) words[core / kWordBits] |= 1U << core % kWordBits;
  std::string text;
  for (std::size_t i = words.size(); i-- > 0;) text += fmt::format("{}{:08x}", text.empty() ? "" : ",", words[i]);
  return text;
}

class Writer {
 public:
  Writer(const topology::System& system, int host) : system_(system), host_(host) {}

  std::string Write() {
    pugi::xml_document document;
    auto root = document.append_child("system");
    Set(root, "version", 1);
    for (const int cpu : system_.All(topology::DeviceKind::cpu, host_)) WriteCpu(root, cpu);
    std::ostringstream text;
    document.save(text, "  ", pugi::format_default | pugi::format_no_declaration);
    return text.str();
  }

 private:
  void WriteCpu(pugi::xml_node root, int index) {
    const topology::Device& cpu = system_.devices[index];
    auto node = root.append_child("cpu");
    Set(node, "numaid", cpu.number);
    if (cpu.rank >= 0) Set(node, "rank", cpu.rank);
    if (cpu.package >= 0) Set(node, "package", cpu.package);
    if (!cpu.cores.empty()) Set(node, "affinity", Affinity(cpu.cores));
    std::vector<std::string> caches;
    for (const auto& cache : cpu.caches) caches.push_back(Affinity(cache));
    if (!caches.empty()) Set(node, "caches", fmt::format("{}", fmt::join(caches, ";")));
    if (!cpu.arch.empty()) Set(node, "arch", cpu.arch);
    if (!cpu.vendor.empty()) Set(node, "vendor", cpu.vendor);
    Set(node, "familyid", cpu.family);
    Set(node, "modelid", cpu.model);
    WriteBelow(node, index, index);
  }

  // Writes the devices below `parent` on PCI: the far ends of its links that are not written yet, and are no CPU.
  void WriteBelow(pugi::xml_node node, int parent, int above) {
    pugi::xml_node card;
    std::string card_at;
    for (const topology::Link& link : system_.links) {
      if (link.from != parent || link.kind != topology::LinkKind::pci || link.to == above) continue;
      const topology::Device& device = system_.devices[link.to];
      if (device.kind == topology::DeviceKind::nic) {
        // Ports of one card follow each other.
        if (!card || device.bus_id.empty() || device.bus_id != card_at) {
          card = (device.bus_id.empty() ? node : PlaceFor(node, device)).append_child("nic");
          card_at = device.bus_id;
        }
        WritePort(card, link.to);
        continue;
      }
      auto place = device.bus_id.empty() ? node : PlaceFor(node, device);
      if (device.kind == topology::DeviceKind::gpu) WriteGpu(place, link.to);
      if (device.kind == topology::DeviceKind::pci_switch) WriteBelow(place, link.to, parent);
    }
  }

  pugi::xml_node PlaceFor(pugi::xml_node parent, const topology::Device& device) {
    constexpr int kClassDigits = 6;
    constexpr int kIdDigits = 4;
    auto node = parent.append_child("pci");
    Set(node, "busid", device.bus_id);
    Set(node, "class", Hex(device.pci.device_class, kClassDigits));
    Set(node, "vendor", Hex(device.pci.vendor, kIdDigits));
    Set(node, "device", Hex(device.pci.device, kIdDigits));
    Set(node, "subsystem_vendor", Hex(device.pci.subsystem_vendor, kIdDigits));
    Set(node, "subsystem_device", Hex(device.pci.subsystem_device, kIdDigits));
    Set(node, "link_speed", device.pci.speed_gts == 0 ? "" : fmt::format("{:.1f} GT/s PCIe", device.pci.speed_gts));
    Set(node, "link_width", device.pci.width);
    return node;
  }

  void WriteGpu(pugi::xml_node place, int index) {
    constexpr int kClassDigits = 6;
    constexpr double kMBPerGB = 1000;
    const topology::Device& gpu = system_.devices[index];
    auto node = place.append_child("gpu");
    Set(node, "dev", gpu.number);
    Set(node, "sm", gpu.sm);
    if (gpu.rank >= 0) Set(node, "rank", gpu.rank);
    Set(node, "gdr", gpu.gdr ? 1 : 0);
    for (const topology::Link& link : system_.links) {
      if (link.from != index || link.kind != topology::LinkKind::nvlink) continue;
      const topology::Device& other = system_.devices[link.to];
      if (other.kind == topology::DeviceKind::cpu) {
        auto c2c = node.append_child("c2c");
        Set(c2c, "bw", std::llround(link.bandwidth * kMBPerGB));
        Set(c2c, "count", 1);
        continue;
      }
      const bool to_switch = other.kind == topology::DeviceKind::nvswitch;
      if (!to_switch && other.bus_id.empty()) continue;  // it has no name here; its own element has the link
      const int sm = to_switch || other.sm == 0 ? gpu.sm : std::min(gpu.sm, other.sm);
      auto nvlink = node.append_child("nvlink");
      Set(nvlink, "target", to_switch ? "fffffff:ff:ff.0" : other.bus_id);
      Set(nvlink, "count", std::llround(link.bandwidth / topology::NvlinkBandwidth(sm, 1)));
      Set(nvlink, "tclass", Hex(to_switch ? topology::kClassNvswitch : topology::kClassGpu, kClassDigits));
    }
  }

  void WritePort(pugi::xml_node card, int index) {
    constexpr double kMbitPerGbit = 1000;
    const topology::Device& nic = system_.devices[index];
    auto node = card.append_child("net");
    Set(node, "name", nic.name);
    Set(node, "dev", nic.number);
    Set(node, "speed", std::llround(nic.speed_gbit * kMbitPerGbit));
    Set(node, "port", nic.port);
    const auto leg = std::find_if(system_.links.begin(), system_.links.end(), [&](const topology::Link& link) {
      return link.from == index && link.kind == topology::LinkKind::network;
    });
    if (leg != system_.links.end()) Set(node, "latency", fmt::format("{}", 2 * leg->latency));
    if (!nic.guid.empty()) Set(node, "guid", nic.guid);
    Set(node, "gdr", nic.gdr ? 1 : 0);
  }

  const topology::System& system_;
  int host_;
};

}  // namespace

std::string WriteTopology(const topology::System& system, int host) { return Writer(system, host).Write(); }

}  // namespace tutti::xml
