// Just enough SVG for drawings: shapes with text, collected into one self-contained document.
//
// Thread-safety: none; one thread at a time.
#pragma once

#include <pugixml.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::report {

struct Point {
  double x = 0;
  double y = 0;
};

struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
  double right() const { return x + width; }
  double bottom() const { return y + height; }
  Point center() const { return {x + width / 2, y + height / 2}; }
};

enum class Anchor { start, middle, end };

struct TextStyle {
  double size = 11;
  std::string_view color = "#1f2933";
  Anchor anchor = Anchor::middle;
  bool bold = false;
  bool halo = false;  // a white rim, for text over lines
};

class Svg {
 public:
  Svg();

  void Rectangle(const Box& box, std::string_view fill, std::string_view stroke);
  void Line(Point from, Point to, std::string_view color, double width, std::string_view dashes = "");
  // Through all points.
  void Polyline(const std::vector<Point>& points, std::string_view color, double width, std::string_view dashes = "");
  void Circle(Point center, double radius, std::string_view fill);
  // Draws a cubic curve, which leaves towards the first control point and arrives from the second one, with an
  // arrowhead at its end if `arrow`.
  void Curve(Point from, Point control1, Point control2, Point to, std::string_view color, double width,
             bool arrow = false);
  // Centres the text vertically on the point.
  void Text(Point at, const std::string& text, const TextStyle& style = {});

  // A document of this size with all shapes so far, on white.
  std::string Document(double width, double height) const;

 private:
  pugi::xml_node Shape(const char* kind);

  pugi::xml_document shapes_;
  pugi::xml_node root_;
};

}  // namespace tutti::report
