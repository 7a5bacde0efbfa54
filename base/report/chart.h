// Line charts as one self-contained SVG: panels side by side over a common horizontal axis.
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tutti::report {

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points = {};  // all positive
  bool line = true;                                    // false: the points alone
};
struct Panel {
  std::string title;
  std::vector<Curve> curves = {};
  bool logarithmic = true;  // the vertical axis; else it begins at 0
};
struct Chart {
  std::string heading;
  std::vector<Panel> panels = {};  // the first one's curves are the legend; a curve has its colour by its place
  std::string horizontal = "size (bytes)";
  bool bytes = true;        // along the horizontal axis, as 64K, 1M; else plain numbers
  bool logarithmic = true;  // the horizontal axis; else it begins at 0
};

std::string Draw(const Chart& chart);

}  // namespace tutti::report
