// Finds nodes that behave alike, so that one of each kind stands for all: this is how a simulation reaches tens of
// thousands of ranks (flat_schedules.h uses the result).
//
//   - A symmetric algorithm (records.h) looks the same from every node: one stands for all.
//   - In trees, nodes are alike if their ranks stand at the same heights and depths in both trees. In a ragged tree, a
//     stand-in's neighbours are not exactly those of the nodes it stands for, so this is an approximation;
//     node_classes_test.cc says how close.
//
// Thread-safety: pure functions.
#pragma once

#include <optional>

#include "algorithms/builders/build.h"
#include "selection/simulator/flat_schedules.h"

namespace tutti::simulator {

// nullopt: no symmetry is known, so every rank has to be simulated.
std::optional<NodeClasses> FindNodeClasses(tuttiAlgorithm_t algorithm, schedule::Collective collective,
                                           const schedule::RankLayout& rank_layout);

}  // namespace tutti::simulator
