// Which nodes do the same, so that one of each kind can stand for all: how a simulation reaches tens of thousands of
// ranks (flat_schedules.h says what is done with it).
//
//   - What is symmetric (SymmetryOf) looks the same from every node: one stands for all.
//   - Of trees, those nodes are alike whose ranks stand at the same heights and depths in both trees. Where a tree is
//     ragged, a stand-in's neighbours are not exactly everybody's, so this is an approximation; fold_test.cc says how
//     close.
//
// Thread-safety: pure functions.
#pragma once

#include <optional>

#include "algorithms/builders/build.h"
#include "selection/simulator/flat_schedules.h"

namespace tutti {

// nullopt: no symmetry is known, every rank has to be simulated.
std::optional<Folding> Fold(tuttiAlgorithm_t algorithm, Collective collective, const Arrangement& arrangement);

}  // namespace tutti
