// Why a plan was chosen, for people: every candidate with its predicted time, and for each loser why not.
//
// Thread-safety: as Tuner.
#pragma once

#include <string>

#include "selection/tuner/tuner.h"

namespace tutti::tuner {

// "ring, 2 channels, chunk 131072 B, bulk".
std::string ToString(const cost_model::Candidate& candidate);

// One line a candidate, the winner first, ended by newlines. `chosen`: what the table says, which may be measured or
// forced rather than the cheapest.
std::string Explain(Tuner& tuner, const cost_model::Kind& kind, std::size_t bytes, const cost_model::Candidate& chosen);

}  // namespace tutti::tuner
