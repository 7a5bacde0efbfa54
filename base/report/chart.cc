#include "base/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/report/sizes.h"
#include "base/report/svg.h"

namespace tutti::report {
namespace {

constexpr double kPanelWidth = 520;
constexpr double kPanelHeight = 360;
constexpr double kLeft = 74;
constexpr double kGap = 96;
constexpr double kTop = 92;
constexpr double kBottom = 56;

// Okabe and Ito's colours, which people with any colour vision can tell apart.
constexpr std::array<std::string_view, 9> kColours = {"#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9",
                                                      "#E69F00", "#000000", "#F0E442", "#999999"};
// The points of a line with more points than this are not marked.
constexpr std::size_t kMarkedPoints = 64;
// If there are more curves than colours, the further ones are dashed.
struct Pen {
  std::string_view colour;
  std::string_view dashes;
};
Pen PenOf(std::size_t index) { return {kColours[index % kColours.size()], index < kColours.size() ? "" : "7 3"}; }

constexpr std::string_view kAxis = "#1f2933";
constexpr double kTextSize = 13;
constexpr TextStyle kBeside{.size = kTextSize, .anchor = Anchor::start};
constexpr TextStyle kBefore{.size = kTextSize, .anchor = Anchor::end};
constexpr TextStyle kAround{.size = kTextSize};
constexpr TextStyle kTitle{.size = kTextSize, .bold = true};
constexpr TextStyle kHeading{.size = 16, .anchor = Anchor::start};

// Where a panel's content lies.
struct Frame {
  double left;
  double top;
  double right() const { return left + kPanelWidth; }
  double bottom() const { return top + kPanelHeight; }
};

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = 0;
  bool logarithmic = true;

  void Include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return high == 0; }
  // 0 .. 1 along the axis.
  double Place(double value) const {
    if (high <= low) return 0.5;
    return logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  }
};

// Whole powers of ten around the values.
Range Decades(const Range& values) {
  if (values.empty()) return {1, 10};
  Range range{std::pow(10, std::floor(std::log10(values.low))), std::pow(10, std::ceil(std::log10(values.high)))};
  if (range.low == range.high) range.high *= 10;
  return range;
}

// Steps of 1, 2 or 5 times a power of ten, so that few of them reach `high`.
double TickStep(double high) {
  constexpr double kMost = 8;
  const double power = std::pow(10, std::floor(std::log10(high / kMost)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (high / (step * power) <= kMost) return step * power;
  }
  return 10 * power;
}

// From 0 to the first step that is not below the values.
Range FromZero(const Range& values) {
  const double high = values.empty() ? 1 : values.high;
  return {0, std::ceil(high / TickStep(high) - 1e-9) * TickStep(high), false};
}

// Every power of two within, thinned to at most eight so that the labels do not touch.
std::vector<double> PowersOfTwo(const Range& along) {
  constexpr int kMost = 8;
  const int first = static_cast<int>(std::ceil(std::log2(along.low) - 1e-9));
  const int last = static_cast<int>(std::floor(std::log2(along.high) + 1e-9));
  const int every = (last - first) / kMost + 1;
  std::vector<double> ticks;
  for (int power = first; power <= last; power += every) ticks.push_back(std::exp2(power));
  return ticks;
}

std::vector<double> StepsFromZero(const Range& along) {
  std::vector<double> ticks;
  for (int i = 0; i * TickStep(along.high) <= along.high * 1.001; ++i) ticks.push_back(i * TickStep(along.high));
  return ticks;
}

std::string ValueLabel(double value) {
  return value >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:g}", value);
}

void DrawVerticalScale(Svg& svg, const Frame& frame, const Range& values) {
  const auto y_of = [&](double value) { return frame.top + (1 - values.Place(value)) * kPanelHeight; };
  const auto mark = [&](double value) {
    svg.Line({frame.left, y_of(value)}, {frame.right(), y_of(value)}, "#bbbbbb", 1);
    svg.Text({frame.left - 8, y_of(value)}, ValueLabel(value), kBefore);
  };
  if (!values.logarithmic) {
    std::ranges::for_each(StepsFromZero(values), mark);
    return;
  }
  for (double decade = values.low; decade <= values.high * 1.001; decade *= 10) {
    for (int minor = 2; minor < 10 && decade * minor < values.high; ++minor) {
      svg.Line({frame.left, y_of(decade * minor)}, {frame.right(), y_of(decade * minor)}, "#eeeeee", 0.6);
    }
    mark(decade);
  }
}

void DrawAxes(Svg& svg, const Frame& frame, const Chart& chart, const Panel& panel, const Range& along,
              const Range& values) {
  DrawVerticalScale(svg, frame, values);
  for (const double tick : along.logarithmic ? PowersOfTwo(along) : StepsFromZero(along)) {
    const double x = frame.left + along.Place(tick) * kPanelWidth;
    svg.Line({x, frame.top}, {x, frame.bottom()}, "#dddddd", 0.8);
    svg.Text({x, frame.bottom() + 15}, chart.bytes ? FormatSize(static_cast<std::size_t>(tick)) : ValueLabel(tick),
             kAround);
  }
  svg.Line({frame.left, frame.top}, {frame.left, frame.bottom()}, kAxis, 1);
  svg.Line({frame.left, frame.bottom()}, {frame.right(), frame.bottom()}, kAxis, 1);
  svg.Text({frame.left + kPanelWidth / 2, frame.bottom() + 37}, chart.horizontal, kAround);
  svg.Text({frame.left + kPanelWidth / 2, frame.top - 16}, panel.title, kTitle);
}

void DrawCurve(Svg& svg, const std::vector<Point>& points, const Pen& pen, bool line) {
  constexpr double kLineWidth = 2;
  if (line) svg.Polyline(points, pen.colour, kLineWidth, pen.dashes);
  if (line && points.size() > kMarkedPoints) return;
  for (const Point& point : points) svg.Circle(point, line ? 3 : 5, pen.colour);
}

constexpr double kSwatch = 26;  // of the legend
constexpr double kLegendLine = 18;
constexpr int kUsualLegendLines = 2;  // that kTop has room for

struct Legend {
  std::vector<Point> places;  // by curve
  int lines = 1;
};

Legend LayOutLegend(const Panel& panel, double right) {
  constexpr double kPerCharacter = 7.4;  // of 13-pixel sans-serif, generously
  Legend legend;
  double x = kLeft;
  for (const Curve& curve : panel.curves) {
    const double width = kSwatch + 6 + kPerCharacter * static_cast<double>(curve.name.size()) + 24;
    if (x > kLeft && x + width > right) {
      x = kLeft;
      ++legend.lines;
    }
    legend.places.push_back({x, (legend.lines - 1) * kLegendLine});
    x += width;
  }
  const double top = legend.lines > 1 ? 42 : 50;
  for (auto& place : legend.places) place.y += top;
  return legend;
}

void DrawLegend(Svg& svg, const Legend& legend, const Panel& panel) {
  for (std::size_t i = 0; i < panel.curves.size(); ++i) {
    const auto [x, y] = legend.places[i];
    svg.Line({x, y}, {x + kSwatch, y}, PenOf(i).colour, 3, PenOf(i).dashes);
    svg.Text({x + kSwatch + 6, y}, panel.curves[i].name, kBeside);
  }
}

}  // namespace

std::string Draw(const Chart& chart) {
  const auto count = static_cast<double>(chart.panels.size());
  const double width = kLeft + count * kPanelWidth + (count - 1) * kGap + 30;
  const Legend legend = chart.panels.empty() ? Legend{} : LayOutLegend(chart.panels.front(), width);
  const double lower = std::max(0, legend.lines - kUsualLegendLines) * kLegendLine;
  Svg svg;
  svg.Text({kLeft, 21}, chart.heading, kHeading);
  if (!chart.panels.empty()) DrawLegend(svg, legend, chart.panels.front());
  Range along;
  for (const Panel& panel : chart.panels) {
    for (const Curve& curve : panel.curves) {
      for (const auto& point : curve.points) along.Include(point.first);
    }
  }
  if (along.empty()) along = {1, 1024};
  if (!chart.logarithmic) along = {0, along.high, false};
  Frame frame{kLeft, kTop + lower};
  for (const Panel& panel : chart.panels) {
    Range values;
    for (const Curve& curve : panel.curves) {
      for (const auto& point : curve.points) values.Include(point.second);
    }
    values = panel.logarithmic ? Decades(values) : FromZero(values);
    DrawAxes(svg, frame, chart, panel, along, values);
    // The first curve is the subject: drawn last, on top.
    for (std::size_t i = panel.curves.size(); i-- > 0;) {
      std::vector<Point> placed;
      for (const auto& [at, value] : panel.curves[i].points) {
        placed.push_back(
            {frame.left + along.Place(at) * kPanelWidth, frame.top + (1 - values.Place(value)) * kPanelHeight});
      }
      DrawCurve(svg, placed, PenOf(i), panel.curves[i].line);
    }
    frame.left += kPanelWidth + kGap;
  }
  return svg.Document(width, lower + kTop + kPanelHeight + kBottom);
}

}  // namespace tutti::report
