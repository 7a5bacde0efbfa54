#include "tools/tuning/explain_plot.h"

#include <map>
#include <vector>

#include "algorithms/builders/records.h"
#include "base/report/chart.h"
#include "base/report/sizes.h"
#include "tools/simulator/simulated.h"

namespace tutti::tools {
namespace {

// As `tutti simulate` sweeps by default.
constexpr std::size_t kLeastBytes = 8;
constexpr std::size_t kMostBytes = std::size_t{1} << 30;
constexpr double kFactor = 2;

}  // namespace

std::string DrawPrices(tuner::Tuner& tuner, const tuner::SelectionTable& table, const cost_model::Kind& kind,
                       const std::string& heading) {
  const double bus_factor = BusFactor(kind.collective, tuner.tuning().nranks);
  report::Chart chart{heading, {{"predicted time (us)"}, {"bus bandwidth (GB/s)"}}};
  for (report::Panel& panel : chart.panels) panel.curves.push_back({"chosen"});
  std::map<tuttiAlgorithm_t, std::size_t> places;
  const auto add = [&](std::size_t place, std::size_t bytes, double us) {
    const auto size = static_cast<double>(bytes);
    chart.panels[0].curves[place].points.emplace_back(size, us);
    chart.panels[1].curves[place].points.emplace_back(size, AlgorithmBandwidth(bytes, us) * bus_factor);
  };
  for (const std::size_t bytes : report::Sweep(kLeastBytes, kMostBytes, kFactor, 0)) {
    add(0, bytes, tuner.Microseconds(table.At(kind, bytes).candidate, kind, bytes));
    for (const auto& each : tuner.Compare(kind, bytes)) {
      if (!each.why_not.empty()) continue;
      const auto [place, is_new] = places.try_emplace(each.algorithm, chart.panels[0].curves.size());
      if (is_new) {
        for (report::Panel& panel : chart.panels)
          panel.curves.push_back({std::string(builders::NameOf(each.algorithm))});
      }
      add(place->second, bytes, each.us);
    }
  }
  return report::Draw(chart);
}

}  // namespace tutti::tools
