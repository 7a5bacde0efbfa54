#include "tools/draw/drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/number_ranges.h"
#include "base/report/svg.h"
#include "tools/draw/host_layout.h"
#include "tools/draw/matrix.h"
#include "tools/draw/ring_drawing.h"

namespace tutti::tools {

using report::Anchor;
using report::Point;
using report::Svg;
using report::TextStyle;
namespace {

constexpr double kMargin = 28;
constexpr double kTitleHeight = 56;
constexpr double kArcHeight = 26;  // extra height of a link for each CPU between its two ends
constexpr double kStub = 16;       // of a port's link to the network
constexpr double kBelowLeaves = 58;
constexpr double kNvlinkDrop = 34;        // below the port numbers, before NVLinks between GPUs bend sideways
constexpr double kNvlinkDepth = 15;       // extra depth of such an NVLink for each GPU that it passes
constexpr double kNvlinkPitch = 9;        // between the NVLinks of one GPU
constexpr std::size_t kLabelledCpus = 4;  // with more CPUs the links' numbers would overlap

constexpr std::string_view kPciColor = "#7b8794";
constexpr std::string_view kNvlinkColor = "#3f9142";
constexpr std::string_view kSocketColor = "#4a6fa5";
constexpr std::string_view kNetworkColor = "#c65d21";

struct Look {
  std::string_view fill;
  std::string_view stroke;
};

Look LookOf(topology::DeviceKind kind) {
  switch (kind) {
    case topology::DeviceKind::cpu: return {"#dbe7f5", kSocketColor};
    case topology::DeviceKind::gpu: return {"#d9f0da", kNvlinkColor};
    case topology::DeviceKind::nvswitch: return {"#b5ddb7", kNvlinkColor};
    case topology::DeviceKind::nic: return {"#fbe3d3", kNetworkColor};
    case topology::DeviceKind::pci_switch:
    case topology::DeviceKind::network: break;
  }
  return {"#eceff2", kPciColor};
}

std::string Short(double bandwidth) { return fmt::format("{:.4g}", bandwidth); }

class Drawing {
 public:
  Drawing(const topology::System& system, int host) : system_(system), host_(host), layout_(LayOutHost(system, host)) {
    const std::vector<int> cpus = system_.All(topology::DeviceKind::cpu, host_);
    const double arcs = cpus.size() > 2 ? kArcHeight * static_cast<double>(cpus.size() - 2) : 0;
    for (auto& [device, box] : layout_.boxes) {
      box.x += kMargin;
      box.y += kTitleHeight + arcs;
    }
    leaves_bottom_ = kTitleHeight + arcs + layout_.height;
    bottom_ = leaves_bottom_;
  }

  std::string Run(const std::string& title, const std::vector<RingPicture>& pictures) {
    svg_.Text({kMargin, kTitleHeight / 2 - 6}, title, {.size = 16, .anchor = Anchor::start, .bold = true});
    svg_.Text({kMargin, kTitleHeight / 2 + 13}, "numbers at links: GB/s in one direction",
              {.size = 10, .color = kPciColor, .anchor = Anchor::start});
    PciLinks();
    CpuLinks();
    NvlinksToSwitch();
    NvlinksBetweenGpus();
    Ports();
    for (const auto& [device, box] : layout_.boxes) Label(device, box);
    double width = std::max(layout_.width, kLeastWidth);
    double y = bottom_ + kMargin;
    for (const RingPicture& picture : pictures) {
      const Box drawn = DrawRings(svg_, system_, host_, picture, {kMargin, y});
      width = std::max(width, drawn.width);
      y = drawn.bottom() + kMargin;
    }
    return svg_.Document(width + 2 * kMargin, y);
  }

 private:
  static constexpr double kLeastWidth = 320;  // width of the title

  const Box& At(int device) const { return layout_.boxes.at(device); }

  void Label(int device, const Box& box) {
    const topology::Device& what = system_.devices[device];
    const Look look = LookOf(what.kind);
    svg_.Rectangle(box, look.fill, look.stroke);
    std::string name = what.name;
    std::string detail;
    switch (what.kind) {
      case topology::DeviceKind::cpu:
        detail = what.cores.empty() ? what.vendor : "cores " + NumberRanges(what.cores);
        break;
      case topology::DeviceKind::pci_switch:
        name = "PCI switch";
        detail = what.bus_id;
        break;
      case topology::DeviceKind::gpu: detail = what.sm > 0 ? fmt::format("sm {}", what.sm) : ""; break;
      case topology::DeviceKind::nic: detail = fmt::format("{:g} Gbit/s", what.speed_gbit); break;
      case topology::DeviceKind::nvswitch:
      case topology::DeviceKind::network: break;
    }
    const double middle = box.center().y;
    FittedText({box.center().x, detail.empty() ? middle : middle - 7}, name, box.width, {.size = 11, .bold = true});
    if (!detail.empty()) FittedText({box.center().x, middle + 8}, detail, box.width, {.size = 9, .color = "#52606d"});
  }

  // Reduces the font size if the text would be wider than its box.
  void FittedText(Point at, const std::string& text, double width, TextStyle style) {
    constexpr double kCharacterWidth = 0.58;  // of the size, for the widest usual sans-serif fonts
    const double fitting = (width - 6) / (kCharacterWidth * static_cast<double>(std::max<std::size_t>(1, text.size())));
    style.size = std::min(style.size, std::max(fitting, 5.0));
    svg_.Text(at, text, style);
  }

  void Number(Point at, const std::string& text, std::string_view color) {
    svg_.Text(at, text, {.size = 9, .color = color, .halo = true});
  }

  // Right of a vertical line.
  void NumberBeside(Point at, const std::string& text, std::string_view color) {
    svg_.Text({at.x + 5, at.y}, text, {.size = 9, .color = color, .anchor = Anchor::start});
  }

  void PciLinks() {
    for (const int link : layout_.tree_links) {
      const Box& above = At(system_.links[link].from);
      const Box& below = At(system_.links[link].to);
      const double x = below.center().x;
      svg_.Line({x, above.bottom()}, {x, below.y}, kPciColor, 1.6);
      NumberBeside({x, below.y - 13}, Short(system_.links[link].bandwidth), kPciColor);
    }
  }

  void CpuLinks() {
    const std::vector<int> cpus = system_.All(topology::DeviceKind::cpu, host_);
    for (const topology::Link& link : system_.links) {
      if (link.kind != topology::LinkKind::socket || link.from > link.to || system_.devices[link.from].host != host_)
        continue;
      const auto place = [&](int cpu) { return std::find(cpus.begin(), cpus.end(), cpu) - cpus.begin(); };
      const Box& a = At(link.from);
      const Box& b = At(link.to);
      const auto apart = std::abs(place(link.to) - place(link.from));
      const Box& left = a.x < b.x ? a : b;
      const Box& right = a.x < b.x ? b : a;
      if (apart == 1) {
        svg_.Line({left.right(), left.center().y}, {right.x, right.center().y}, kSocketColor, 2.5);
        Number({(left.right() + right.x) / 2, left.center().y - 9}, Short(link.bandwidth), kSocketColor);
        continue;
      }
      const double rise = kArcHeight * static_cast<double>(apart - 1);
      const Point from = {left.center().x + 12, left.y};
      const Point to = {right.center().x - 12, right.y};
      // A cubic rises to three quarters of its control points' height.
      const double top = from.y - rise * 4 / 3;
      svg_.Curve(from, {from.x + 20, top}, {to.x - 20, top}, to, kSocketColor, 1.6);
      if (cpus.size() <= kLabelledCpus)
        Number({(from.x + to.x) / 2, from.y - rise}, Short(link.bandwidth), kSocketColor);
    }
  }

  void NvlinksToSwitch() {
    const std::vector<int> switches = system_.All(topology::DeviceKind::nvswitch, host_);
    if (switches.empty()) return;
    const Box bar = {kMargin, leaves_bottom_ + kBelowLeaves, layout_.width, 28};
    for (const topology::Link& link : system_.links) {
      if (link.to != switches.front() || system_.devices[link.from].kind != topology::DeviceKind::gpu) continue;
      const double x = At(link.from).center().x;
      svg_.Line({x, leaves_bottom_}, {x, bar.y}, kNvlinkColor, 4);
      const int count = NvlinkCount(system_.devices[link.from], link.bandwidth);
      NumberBeside({x, leaves_bottom_ + 22}, fmt::format("{} NVLinks", count), kNvlinkColor);
      NumberBeside({x, leaves_bottom_ + 35}, Short(link.bandwidth), kNvlinkColor);
    }
    const Look look = LookOf(topology::DeviceKind::nvswitch);
    svg_.Rectangle(bar, look.fill, look.stroke);
    svg_.Text(bar.center(), system_.devices[switches.front()].name, {.size = 11, .bold = true});
    bottom_ = std::max(bottom_, bar.bottom());
  }

  std::ptrdiff_t PlaceOf(int gpu) const {
    return std::find(layout_.gpus.begin(), layout_.gpus.end(), gpu) - layout_.gpus.begin();
  }

  // The x position at which the NVLink to `other` leaves a GPU. Links to the left start left of those to the right. On
  // either side, links that go farther start nearer to the middle, so that links of one GPU do not cross.
  double NvlinkX(int gpu, int other) const {
    std::vector<std::ptrdiff_t> ways;
    const std::ptrdiff_t here = PlaceOf(gpu);
    const auto rank = [&](int to) {
      const std::ptrdiff_t there = PlaceOf(to);
      const auto count = static_cast<std::ptrdiff_t>(layout_.gpus.size());
      return there < here ? -1 - there : count - there;  // leftmost first
    };
    for (const topology::Link& link : system_.links) {
      if (link.kind == topology::LinkKind::nvlink && link.from == gpu && IsGpuHere(link.to))
        ways.push_back(rank(link.to));
    }
    std::sort(ways.begin(), ways.end());
    const auto way = std::find(ways.begin(), ways.end(), rank(other)) - ways.begin();
    const double pitch = std::min(kNvlinkPitch, At(gpu).width / static_cast<double>(ways.size()));
    return At(gpu).center().x + (static_cast<double>(way) - static_cast<double>(ways.size() - 1) / 2) * pitch;
  }

  void NvlinksBetweenGpus() {
    std::vector<std::pair<Point, std::string>> numbers;  // drawn on top of all lines
    for (const topology::Link& link : system_.links) {
      if (link.kind != topology::LinkKind::nvlink || !IsGpuHere(link.from) || !IsGpuHere(link.to)) continue;
      if (PlaceOf(link.from) > PlaceOf(link.to)) continue;  // skips the other direction
      const auto apart = static_cast<double>(PlaceOf(link.to) - PlaceOf(link.from));
      const double turn = leaves_bottom_ + kNvlinkDrop;
      const double depth = kNvlinkDepth * (apart + 0.4);
      const double width = 0.8 + NvlinkCount(system_.devices[link.from], link.bandwidth);
      const Point from = {NvlinkX(link.from, link.to), turn};
      const Point to = {NvlinkX(link.to, link.from), turn};
      svg_.Line({from.x, leaves_bottom_}, from, kNvlinkColor, width);
      svg_.Line({to.x, leaves_bottom_}, to, kNvlinkColor, width);
      svg_.Curve(from, {from.x, turn + depth * 4 / 3}, {to.x, turn + depth * 4 / 3}, to, kNvlinkColor, width);
      numbers.push_back({{(from.x + to.x) / 2, turn + depth}, Short(link.bandwidth)});
      bottom_ = std::max(bottom_, turn + depth + 8);
    }
    for (const auto& [at, text] : numbers) Number(at, text, kNvlinkColor);
  }

  bool IsGpuHere(int device) const {
    return system_.devices[device].kind == topology::DeviceKind::gpu && system_.devices[device].host == host_;
  }

  void Ports() {
    for (const topology::Link& link : system_.links) {
      if (link.kind != topology::LinkKind::network || system_.devices[link.from].host != host_) continue;
      const Box& nic = At(link.from);
      const double x = nic.center().x;
      const Point begin = {x, nic.bottom()};
      svg_.Curve(begin, begin, begin, {x, nic.bottom() + kStub}, kNetworkColor, 1.6, true);
      Number({x, nic.bottom() + kStub + 8}, Short(link.bandwidth), kNetworkColor);
      bottom_ = std::max(bottom_, nic.bottom() + kStub + 14);
    }
  }

  const topology::System& system_;
  int host_;
  HostLayout layout_;
  Svg svg_;
  double leaves_bottom_ = 0;
  double bottom_ = 0;
};

}  // namespace

std::string DrawHost(const topology::System& system, int host, const std::string& title,
                     const std::vector<RingPicture>& rings) {
  return Drawing(system, host).Run(title, rings);
}

}  // namespace tutti::tools
