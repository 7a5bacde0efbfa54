// Time and bus bandwidth over size as one self-contained SVG: logarithmic axes, one line per library.
// Pure functions; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "bench/record.h"

namespace tutti::bench {

// Of the records, those of the first type, operator, root and place that occur. With fewer than one measured point the
// picture has axes only.
std::string PlotSweep(const std::vector<Record>& records);

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  // all positive
};
struct Panel {
  std::string title;
  std::vector<Curve> curves;
};
// Panels side by side over a common horizontal axis of bytes, under a heading and one legend.
std::string DrawPanels(const std::string& heading, const std::vector<Panel>& panels);

// Text with the five characters escaped that mean something in XML.
std::string EscapeXml(const std::string& text);

}  // namespace tutti::bench
