// libFuzzer target. Selection tables and calibrations: any text either gives a consistent table or is refused. A table
// that was read is written and read again, and must be the same.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "selection/tuner/calibration.h"
#include "selection/tuner/selection_table.h"

namespace {

void Require(bool promise) {
  if (!promise) __builtin_trap();
}

void RequireSound(const tutti::tuner::SelectionTable& table, const tutti::cost_model::TuningContext& tuning) {
  for (const auto& kind : tutti::cost_model::AllKinds()) {
    if (!table.Has(kind)) continue;
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{4096}, SIZE_MAX}) {
      const auto& candidate = table.At(kind, bytes).candidate;
      Require(candidate.channels >= 1 && candidate.channels <= tuning.max_channels);
      Require(candidate.config.chunk_bytes >= 1);
    }
  }
  const auto again = tutti::tuner::SelectionTable::FromJson(table.ToJson(tuning), "again", tuning);
  Require(again == table);
}

tutti::cost_model::TuningContext FourRanks() {
  tutti::cost_model::TuningContext tuning;
  tuning.nranks = 4;
  tuning.max_channels = 2;
  tuning.threads = 1;
  tuning.bulk_capacity = std::size_t{1} << 20;
  return tuning;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const tutti::cost_model::TuningContext tuning = FourRanks();
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    RequireSound(tutti::tuner::SelectionTable::FromJson(text, "table.json", tuning), tuning);
  } catch (const tutti::Error& error) {
    Require(error.code() == tuttiInvalidArgument);
  }
  try {
    const auto calibration = tutti::tuner::ParseCalibration(text, "calibration.json", 2);
    Require(calibration.costs.costs.operation_us > 0 && !calibration.costs.costs.executor_bandwidth.empty());
    tutti::tuner::SelectionTable table;
    if (calibration.TableFor(tuning, table)) RequireSound(table, tuning);
  } catch (const tutti::Error& error) {
    Require(error.code() == tuttiInvalidArgument);
  }
  return 0;
}
