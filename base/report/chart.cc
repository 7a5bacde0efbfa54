#include "base/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>

#include "base/report/sizes.h"

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
Pen PenOf(std::size_t index) {
  return {kColours[index % kColours.size()], index < kColours.size() ? "" : " stroke-dasharray=\"7 3\""};
}

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

class Drawing {
 public:
  Drawing(double width, double height)
      : text_(fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 "
                          "0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"13\">\n"
                          "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
                          width, height)) {}

  void Line(double x1, double y1, double x2, double y2, std::string_view colour, double width,
            std::string_view dashes = "") {
    fmt::format_to(
        out(), "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-width=\"{}\"{}/>\n",
        x1, y1, x2, y2, colour, width, dashes);
  }
  void Text(double x, double y, std::string_view anchor, const std::string& text, std::string_view more = "") {
    fmt::format_to(out(), "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, more,
                   EscapeXml(text));
  }
  void Polyline(const std::vector<std::pair<double, double>>& points, const Pen& pen, bool line) {
    if (line) Join(points, pen);
    if (line && points.size() > kMarkedPoints) return;
    for (const auto& [x, y] : points) {
      fmt::format_to(out(), "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\"/>\n", x, y, line ? 3 : 5,
                     pen.colour);
    }
  }
  // Everything that is drawn from Begin to End lies this much lower.
  void BeginLower(double by) { fmt::format_to(out(), "<g transform=\"translate(0 {:.1f})\">\n", by); }
  void EndLower() { text_ += "</g>\n"; }
  std::string Finish() { return text_ + "</svg>\n"; }

 private:
  void Join(const std::vector<std::pair<double, double>>& points, const Pen& pen) {
    fmt::format_to(out(),
                   "<polyline fill=\"none\" stroke-width=\"2\" stroke-linejoin=\"round\" stroke=\"{}\"{} points=\"",
                   pen.colour, pen.dashes);
    for (const auto& [x, y] : points) fmt::format_to(out(), "{:.1f},{:.1f} ", x, y);
    text_ += "\"/>\n";
  }
  std::back_insert_iterator<std::string> out() { return std::back_inserter(text_); }

  std::string text_;
};

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

void DrawVerticalScale(Drawing& drawing, double left, const Range& values) {
  const double right = left + kPanelWidth;
  const auto y_of = [&](double value) { return kTop + (1 - values.Place(value)) * kPanelHeight; };
  const auto mark = [&](double value) {
    drawing.Line(left, y_of(value), right, y_of(value), "#bbbbbb", 1);
    drawing.Text(left - 8, y_of(value) + 4.5, "end", ValueLabel(value));
  };
  if (!values.logarithmic) {
    std::ranges::for_each(StepsFromZero(values), mark);
    return;
  }
  for (double decade = values.low; decade <= values.high * 1.001; decade *= 10) {
    for (int minor = 2; minor < 10 && decade * minor < values.high; ++minor) {
      drawing.Line(left, y_of(decade * minor), right, y_of(decade * minor), "#eeeeee", 0.6);
    }
    mark(decade);
  }
}

void DrawAxes(Drawing& drawing, double left, const Chart& chart, const Panel& panel, const Range& along,
              const Range& values) {
  const double bottom = kTop + kPanelHeight;
  DrawVerticalScale(drawing, left, values);
  for (const double tick : along.logarithmic ? PowersOfTwo(along) : StepsFromZero(along)) {
    const double x = left + along.Place(tick) * kPanelWidth;
    drawing.Line(x, kTop, x, bottom, "#dddddd", 0.8);
    drawing.Text(x, bottom + 19, "middle", chart.bytes ? FormatSize(static_cast<std::size_t>(tick)) : ValueLabel(tick));
  }
  drawing.Line(left, kTop, left, bottom, "black", 1);
  drawing.Line(left, bottom, left + kPanelWidth, bottom, "black", 1);
  drawing.Text(left + kPanelWidth / 2, bottom + 41, "middle", chart.horizontal);
  drawing.Text(left + kPanelWidth / 2, kTop - 12, "middle", panel.title, " font-weight=\"bold\"");
}

constexpr double kSwatch = 26;  // of the legend
constexpr double kLegendLine = 18;
constexpr int kUsualLegendLines = 2;  // that kTop has room for

struct Legend {
  std::vector<std::pair<double, double>> places;  // by curve
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
    legend.places.emplace_back(x, (legend.lines - 1) * kLegendLine);
    x += width;
  }
  const double top = legend.lines > 1 ? 42 : 50;
  for (auto& place : legend.places) place.second += top;
  return legend;
}

void DrawLegend(Drawing& drawing, const Legend& legend, const Panel& panel) {
  for (std::size_t i = 0; i < panel.curves.size(); ++i) {
    const auto [x, y] = legend.places[i];
    drawing.Line(x, y, x + kSwatch, y, PenOf(i).colour, 3, PenOf(i).dashes);
    drawing.Text(x + kSwatch + 6, y + 4.5, "start", panel.curves[i].name);
  }
}

}  // namespace

std::string EscapeXml(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      case '\'': escaped += "&apos;"; break;
      default: escaped += c;
    }
  }
  return escaped;
}

std::string Draw(const Chart& chart) {
  const auto count = static_cast<double>(chart.panels.size());
  const double width = kLeft + count * kPanelWidth + (count - 1) * kGap + 30;
  const Legend legend = chart.panels.empty() ? Legend{} : LayOutLegend(chart.panels.front(), width);
  const double lower = std::max(0, legend.lines - kUsualLegendLines) * kLegendLine;
  Drawing drawing(width, lower + kTop + kPanelHeight + kBottom);
  drawing.Text(kLeft, 26, "start", chart.heading, " font-size=\"16\"");
  if (!chart.panels.empty()) DrawLegend(drawing, legend, chart.panels.front());
  Range along;
  for (const Panel& panel : chart.panels) {
    for (const Curve& curve : panel.curves) {
      for (const auto& point : curve.points) along.Include(point.first);
    }
  }
  if (along.empty()) along = {1, 1024};
  if (!chart.logarithmic) along = {0, along.high, false};
  double left = kLeft;
  if (lower > 0) drawing.BeginLower(lower);
  for (const Panel& panel : chart.panels) {
    Range values;
    for (const Curve& curve : panel.curves) {
      for (const auto& point : curve.points) values.Include(point.second);
    }
    values = panel.logarithmic ? Decades(values) : FromZero(values);
    DrawAxes(drawing, left, chart, panel, along, values);
    // The first curve is the subject: drawn last, on top.
    for (std::size_t i = panel.curves.size(); i-- > 0;) {
      std::vector<std::pair<double, double>> placed;
      for (const auto& [at, value] : panel.curves[i].points) {
        placed.emplace_back(left + along.Place(at) * kPanelWidth, kTop + (1 - values.Place(value)) * kPanelHeight);
      }
      drawing.Polyline(placed, PenOf(i), panel.curves[i].line);
    }
    left += kPanelWidth + kGap;
  }
  if (lower > 0) drawing.EndLower();
  return drawing.Finish();
}

}  // namespace tutti::report
