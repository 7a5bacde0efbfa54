// The prices of all algorithms over the size, as a picture.
//
// Thread-safety: one thread at a time uses a tuner.
#pragma once

#include <string>

#include "selection/tuner/tuner.h"

namespace tutti::tools {

// SVG with a curve for what `table` chooses, and one for each algorithm that may serve.
std::string DrawPrices(tuner::Tuner& tuner, const tuner::SelectionTable& table, const cost_model::Kind& kind,
                       const std::string& heading);

}  // namespace tutti::tools
