// Why a plan was chosen, for people: every candidate with its predicted time, and for each loser why not.
//
// Thread-safety: as Pricing.
#pragma once

#include <string>

#include "selection/tuner/select.h"

namespace tutti {

// "ring, 2 channels, chunk 131072 B, bulk".
std::string ToString(const Candidate& candidate);

// One line a candidate, the winner first, ended by newlines. `chosen`: what the table says, which may be measured or
// forced rather than the cheapest.
std::string Explain(Pricing& pricing, const Kind& kind, std::size_t bytes, const Candidate& chosen);

}  // namespace tutti
