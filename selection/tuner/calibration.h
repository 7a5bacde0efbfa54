// Results of `tutti calibrate` on a machine, which later runs load: the machine's constants, and for some numbers of
// ranks the fastest plan.
//
// Thread-safety: value type; functions read files only.
#pragma once

#include <string>
#include <vector>

#include "selection/cost_model/host_machine.h"
#include "selection/tuner/selection_table.h"

namespace tutti::tuner {

struct Calibration {
  std::string name;  // of the file; empty: these are defaults
  cost_model::HostCosts costs;
  std::vector<std::string> tables = {};  // SelectionTable::ToJson, one for each number of ranks

  // Fills `table` with the measurements under such conditions. False: there are none.
  bool TableFor(const cost_model::TuningContext& tuning, SelectionTable& table) const;
};

// The largest calibration or selection-table file that is read. The calibration of one machine has some 100 KB.
inline constexpr std::size_t kMaxTableFile = std::size_t{4} << 20;

// $XDG_CACHE_HOME/tutti/HOST.json, or ~/.cache/...; empty if there is no home.
std::string DefaultCalibrationPath();

// `path`: the setting's; "none": the defaults; empty: DefaultCalibrationPath() if there is such a file, else the
// defaults, for ranks that share `cores`. Throws tuttiInvalidArgument for a file that is wrong.
Calibration LoadCalibration(const std::string& path, int cores);
// The same, from a file's text.
Calibration ParseCalibration(const std::string& text, const std::string& name, int cores);
std::string ToJson(const Calibration& calibration);

}  // namespace tutti::tuner
