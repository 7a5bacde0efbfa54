// What the user wishes of the layer, by environment variables.
//
// Thread-safety: pure functions of the environment.
#pragma once

#include <string>

namespace tutti::pmpi {

bool WantsMpiAlone();  // TUTTI_MPI=off
bool WantsReport();    // TUTTI_MPI_REPORT=1

// A line for each of these variables whose value means nothing.
std::string UnknownWishes();

}  // namespace tutti::pmpi
