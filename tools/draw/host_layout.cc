#include "tools/draw/host_layout.h"

#include <algorithm>

namespace tutti::tools {
namespace {

constexpr double kBoxWidth = 68;
constexpr double kBoxHeight = 36;
constexpr double kBoxGap = 10;
constexpr double kRowGap = 30;     // room for the label of a link
constexpr double kCpuWidth = 130;  // at least
constexpr double kCpuGap = 64;     // room for the label of the link between CPUs

class Layout {
 public:
  Layout(const topology::System& system, int host) : system_(system), placed_(system.devices.size(), false) {
    children_.resize(system.devices.size());
    const std::vector<int> cpus = system.All(topology::DeviceKind::cpu, host);
    for (const int cpu : cpus) placed_[cpu] = true;
    for (const int cpu : cpus) Adopt(cpu);
    roots_ = cpus;
    // Devices that are not attached to any CPU become roots of their own.
    for (const topology::DeviceKind kind :
         {topology::DeviceKind::pci_switch, topology::DeviceKind::gpu, topology::DeviceKind::nic}) {
      for (const int device : system.All(kind, host)) {
        if (placed_[device]) continue;
        placed_[device] = true;
        roots_.push_back(device);
        Adopt(device);
      }
    }
  }

  HostLayout Run() {
    int depth = 1;
    for (const int root : roots_) depth = std::max(depth, Depth(root));
    last_row_ = depth;
    double x = 0;
    for (const int root : roots_) {
      if (x > 0) x += kCpuGap;
      Place(root, x, 0);
      x += Width(root);
    }
    layout_.width = x;
    for (const auto& [device, box] : layout_.boxes) layout_.height = std::max(layout_.height, box.bottom());
    return std::move(layout_);
  }

 private:
  bool IsLeaf(int device) const {
    return system_.devices[device].kind == topology::DeviceKind::gpu ||
           system_.devices[device].kind == topology::DeviceKind::nic;
  }

  void Adopt(int parent) {
    if (IsLeaf(parent)) return;
    for (std::size_t i = 0; i < system_.links.size(); ++i) {
      const topology::Link& link = system_.links[i];
      if (link.from != parent || link.kind != topology::LinkKind::pci || placed_[link.to]) continue;
      placed_[link.to] = true;
      children_[parent].push_back(link.to);
      layout_.tree_links.push_back(static_cast<int>(i));
      Adopt(link.to);
    }
  }

  // The first row in which leaves below this device can stand; CPUs are in row 0.
  int Depth(int device) const {
    int deepest = 0;
    for (const int child : children_[device]) deepest = std::max(deepest, IsLeaf(child) ? 0 : Depth(child));
    return deepest + 1;
  }

  double ChildrenWidth(int device) const {
    double sum = 0;
    for (const int child : children_[device]) sum += Width(child) + (sum > 0 ? kBoxGap : 0);
    return sum;
  }

  double Width(int device) const {
    const double least = system_.devices[device].kind == topology::DeviceKind::cpu ? kCpuWidth : kBoxWidth;
    return std::max(least, ChildrenWidth(device));
  }

  static double RowTop(int row) { return row * (kBoxHeight + kRowGap); }

  void Place(int device, double x, int row) {
    layout_.boxes[device] = {x, RowTop(IsLeaf(device) ? last_row_ : row), Width(device), kBoxHeight};
    if (system_.devices[device].kind == topology::DeviceKind::gpu) layout_.gpus.push_back(device);
    double child_x = x + (Width(device) - ChildrenWidth(device)) / 2;
    for (const int child : children_[device]) {
      Place(child, child_x, row + 1);
      child_x += Width(child) + kBoxGap;
    }
  }

  const topology::System& system_;
  std::vector<bool> placed_;
  std::vector<std::vector<int>> children_;  // by device
  std::vector<int> roots_;
  int last_row_ = 1;
  HostLayout layout_;
};

}  // namespace

HostLayout LayOutHost(const topology::System& system, int host) { return Layout(system, host).Run(); }

}  // namespace tutti::tools
