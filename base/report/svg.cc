#include "base/report/svg.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <iterator>
#include <sstream>

namespace tutti::report {
namespace {

constexpr double kCorner = 5;
constexpr double kArrowLength = 8;
constexpr double kArrowHalfWidth = 3.2;
// Digits and capitals of a sans-serif font are about 0.7 of its size high; half of that centres them.
constexpr double kTextDrop = 0.35;

std::string Number(double value) { return fmt::format("{:.7g}", std::round(value * 100) / 100); }

void SetStroke(pugi::xml_node node, std::string_view color, double width, std::string_view dashes) {
  node.append_attribute("fill") = "none";
  node.append_attribute("stroke") = std::string(color).c_str();
  node.append_attribute("stroke-width") = Number(width).c_str();
  if (!dashes.empty()) node.append_attribute("stroke-dasharray") = std::string(dashes).c_str();
}

}  // namespace

Svg::Svg() : root_(shapes_.append_child("svg")) {}

pugi::xml_node Svg::Shape(const char* kind) { return root_.append_child(kind); }

void Svg::Rectangle(const Box& box, std::string_view fill, std::string_view stroke) {
  pugi::xml_node node = Shape("rect");
  node.append_attribute("x") = Number(box.x).c_str();
  node.append_attribute("y") = Number(box.y).c_str();
  node.append_attribute("width") = Number(box.width).c_str();
  node.append_attribute("height") = Number(box.height).c_str();
  node.append_attribute("rx") = Number(kCorner).c_str();
  node.append_attribute("fill") = std::string(fill).c_str();
  node.append_attribute("stroke") = std::string(stroke).c_str();
}

void Svg::Line(Point from, Point to, std::string_view color, double width, std::string_view dashes) {
  pugi::xml_node node = Shape("line");
  node.append_attribute("x1") = Number(from.x).c_str();
  node.append_attribute("y1") = Number(from.y).c_str();
  node.append_attribute("x2") = Number(to.x).c_str();
  node.append_attribute("y2") = Number(to.y).c_str();
  SetStroke(node, color, width, dashes);
}

void Svg::Polyline(const std::vector<Point>& points, std::string_view color, double width, std::string_view dashes) {
  std::string text;
  for (const Point& point : points)
    fmt::format_to(std::back_inserter(text), "{},{} ", Number(point.x), Number(point.y));
  pugi::xml_node node = Shape("polyline");
  node.append_attribute("points") = text.c_str();
  SetStroke(node, color, width, dashes);
}

void Svg::Circle(Point center, double radius, std::string_view fill) {
  pugi::xml_node node = Shape("circle");
  node.append_attribute("cx") = Number(center.x).c_str();
  node.append_attribute("cy") = Number(center.y).c_str();
  node.append_attribute("r") = Number(radius).c_str();
  node.append_attribute("fill") = std::string(fill).c_str();
}

void Svg::Curve(Point from, Point control1, Point control2, Point to, std::string_view color, double width,
                bool arrow) {
  Point end = to;
  const double dx = to.x - control2.x;
  const double dy = to.y - control2.y;
  const double length = std::hypot(dx, dy);
  if (arrow && length > 0) {
    end = {to.x - dx / length * kArrowLength, to.y - dy / length * kArrowLength};
    const Point side = {-dy / length * kArrowHalfWidth, dx / length * kArrowHalfWidth};
    pugi::xml_node head = Shape("path");
    head.append_attribute("d") =
        fmt::format("M{} {} L{} {} L{} {} Z", Number(to.x), Number(to.y), Number(end.x + side.x),
                    Number(end.y + side.y), Number(end.x - side.x), Number(end.y - side.y))
            .c_str();
    head.append_attribute("fill") = std::string(color).c_str();
  }
  pugi::xml_node node = Shape("path");
  node.append_attribute("d") =
      fmt::format("M{} {} C{} {} {} {} {} {}", Number(from.x), Number(from.y), Number(control1.x), Number(control1.y),
                  Number(control2.x), Number(control2.y), Number(end.x), Number(end.y))
          .c_str();
  SetStroke(node, color, width, "");
}

void Svg::Text(Point at, const std::string& text, const TextStyle& style) {
  static constexpr std::array<const char*, 3> kAnchors = {"start", "middle", "end"};
  pugi::xml_node node = Shape("text");
  node.append_attribute("x") = Number(at.x).c_str();
  node.append_attribute("y") = Number(at.y + style.size * kTextDrop).c_str();
  node.append_attribute("font-size") = Number(style.size).c_str();
  node.append_attribute("fill") = std::string(style.color).c_str();
  node.append_attribute("text-anchor") = kAnchors[static_cast<std::size_t>(style.anchor)];
  if (style.bold) node.append_attribute("font-weight") = "bold";
  if (style.halo) {
    node.append_attribute("stroke") = "#ffffff";
    node.append_attribute("stroke-width") = "3";
    node.append_attribute("paint-order") = "stroke";
  }
  node.text() = text.c_str();
}

std::string Svg::Document(double width, double height) const {
  pugi::xml_document document;
  pugi::xml_node svg = document.append_child("svg");
  svg.append_attribute("xmlns") = "http://www.w3.org/2000/svg";
  svg.append_attribute("width") = Number(width).c_str();
  svg.append_attribute("height") = Number(height).c_str();
  svg.append_attribute("viewBox") = fmt::format("0 0 {} {}", Number(width), Number(height)).c_str();
  svg.append_attribute("font-family") = "Helvetica, Arial, DejaVu Sans, sans-serif";
  pugi::xml_node paper = svg.append_child("rect");
  paper.append_attribute("width") = "100%";
  paper.append_attribute("height") = "100%";
  paper.append_attribute("fill") = "#ffffff";
  for (const pugi::xml_node& shape : root_.children()) svg.append_copy(shape);
  std::ostringstream out;
  document.save(out, " ", pugi::format_indent | pugi::format_no_declaration);
  return out.str();
}

}  // namespace tutti::report
