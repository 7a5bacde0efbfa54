#include "tools/draw/ring_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>

#include "topology/graph/rails.h"

namespace tutti::tools {

using report::Anchor;
namespace {

constexpr double kHeading = 30;
constexpr double kRadius = 112;
constexpr double kLabelRadius = kRadius + 20;
constexpr double kRowHeight = 24;
constexpr double kChipWidth = 50;
constexpr double kChipHeight = 18;
constexpr double kChipGap = 12;
constexpr std::size_t kMostRows = 24;
constexpr double kRingPitch = 12;   // between two rings' chords, at most,
constexpr double kRingSpread = 76;  // and of all of them together

// Twelve colours that stay distinguishable on white (after Paul Tol's "bright" and "muted" schemes, 2021).
constexpr std::array<std::string_view, 12> kColors = {"#4477aa", "#ee6677", "#228833", "#aa3377", "#cc9911", "#33aacc",
                                                      "#882255", "#44aa99", "#999933", "#332288", "#dd7733", "#777777"};

std::string_view ColorOf(std::size_t ring) { return kColors[ring % kColors.size()]; }

class RingPanel {
 public:
  RingPanel(Svg& svg, const topology::System& system, int host, const RingPicture& picture, Point corner)
      : svg_(svg), system_(system), rings_(picture.rings), corner_(corner) {
    const std::vector<int> ends = topology::RingEnds(system, host);
    for (std::size_t k = 0; k < ends.size(); ++k) {
      const double turn = 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(ends.size());
      direction_[ends[k]] = {std::sin(turn), -std::cos(turn)};
    }
    svg.Text({corner.x, corner.y + kHeading / 2}, picture.heading, {.size = 14, .anchor = Anchor::start, .bold = true});
  }

  Box Run() {
    Circle();
    const Box rows = Rows({corner_.x + 2 * kLabelRadius + 60, corner_.y + kHeading});
    const double bottom = std::max(rows.bottom(), corner_.y + kHeading + 2 * kLabelRadius + 20);
    return {corner_.x, corner_.y, rows.right() - corner_.x, bottom - corner_.y};
  }

 private:
  Point OnCircle(int device, double radius) const {
    const Point center = {corner_.x + kLabelRadius + 14, corner_.y + kHeading + kLabelRadius + 10};
    const Point& direction = direction_.at(device);
    return {center.x + direction.x * radius, center.y + direction.y * radius};
  }

  void Circle() {
    for (std::size_t r = 0; r < rings_.rings.size(); ++r) {
      const search::Ring& ring = rings_.rings[r];
      const std::size_t hops = ring.order.size() - (ring.nic_in >= 0 ? 1 : 0);
      for (std::size_t k = 0; k < hops; ++k) Hop(r, ring.order[k], ring.order[(k + 1) % ring.order.size()]);
    }
    for (const auto& [device, direction] : direction_) {
      const Point at = OnCircle(device, kLabelRadius);
      svg_.Text(at, system_.devices[device].name, {.size = 10, .bold = true});
    }
  }

  // Draws a chord. Each further ring's chord bends more towards the centre, so that rings over the same hop are side by
  // side.
  void Hop(std::size_t ring, int from, int to) {
    const auto count = static_cast<double>(rings_.rings.size());
    const double pitch = std::min(kRingPitch, kRingSpread / count);
    const Point a = OnCircle(from, kRadius);
    const Point b = OnCircle(to, kRadius);
    const Point center = OnCircle(from, 0);
    const Point middle = {(a.x + b.x) / 2, (a.y + b.y) / 2};
    const double inward = std::hypot(center.x - middle.x, center.y - middle.y);
    const auto index = static_cast<double>(ring);
    Point bend = {(center.x - middle.x) / inward * pitch * (index + 1),
                  (center.y - middle.y) / inward * pitch * (index + 1)};
    if (inward < 1) {  // for a chord through the centre, bend to either side, the same one for both directions
      const double sign = from < to ? 1 : -1;
      const double side = sign * pitch * (index - (count - 1) / 2) / kRadius / 2;
      bend = {(a.y - b.y) * side, (b.x - a.x) * side};
    }
    const auto control = [&](double part) {
      return Point{a.x + (b.x - a.x) * part + bend.x, a.y + (b.y - a.y) * part + bend.y};
    };
    svg_.Curve(a, control(0.25), control(0.75), b, ColorOf(ring), 1.8, true);
  }

  Box Rows(Point corner) {
    double right = corner.x;
    double y = corner.y + kRowHeight / 2;
    const std::size_t rows = std::min(rings_.rings.size(), kMostRows);
    for (std::size_t r = 0; r < rows; ++r, y += kRowHeight) {
      const search::Ring& ring = rings_.rings[r];
      double x = corner.x;
      svg_.Text({x, y}, fmt::format("{}", r), {.size = 10, .color = ColorOf(r), .anchor = Anchor::end, .bold = true});
      x += kChipGap;
      if (ring.nic_in >= 0) x = Chip(r, ring.nic_in, {x, y}, true);
      for (std::size_t k = 0; k < ring.order.size(); ++k) {
        const bool last = k + 1 == ring.order.size() && ring.nic_out < 0;
        x = Chip(r, ring.order[k], {x, y}, !last);
      }
      if (ring.nic_out >= 0) x = Chip(r, ring.nic_out, {x, y}, false);
      right = std::max(right, x);
    }
    if (rows < rings_.rings.size()) {
      svg_.Text({corner.x + kChipGap, y}, fmt::format("and {} more", rings_.rings.size() - rows),
                {.size = 10, .anchor = Anchor::start});
      y += kRowHeight;
    }
    return {corner.x, corner.y, right - corner.x, y - corner.y};
  }

  // Returns the left end of the next chip.
  double Chip(std::size_t ring, int device, Point left, bool more) {
    const Box box = {left.x, left.y - kChipHeight / 2, kChipWidth, kChipHeight};
    const bool nic = system_.devices[device].kind == topology::DeviceKind::nic;
    svg_.Rectangle(box, nic ? "#ffffff" : ColorOf(ring), ColorOf(ring));
    svg_.Text(box.center(), system_.devices[device].name,
              {.size = 9.5, .color = nic ? std::string_view("#1f2933") : std::string_view("#ffffff"), .bold = true});
    if (more) svg_.Line({box.right(), left.y}, {box.right() + kChipGap, left.y}, ColorOf(ring), 2);
    return box.right() + kChipGap;
  }

  Svg& svg_;
  const topology::System& system_;
  const search::Rings& rings_;
  Point corner_;
  std::map<int, Point> direction_;  // as seen from the circle's centre, by device
};

}  // namespace

Box DrawRings(Svg& svg, const topology::System& system, int host, const RingPicture& picture, Point corner) {
  return RingPanel(svg, system, host, picture, corner).Run();
}

}  // namespace tutti::tools
