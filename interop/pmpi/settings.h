// The layer's settings: environment variables that it reads itself.
//
// Thread-safety: pure functions of the environment.
#pragma once

#include <string>

namespace tutti::pmpi {

bool WantsMpiAlone();  // TUTTI_MPI=off
bool WantsReport();    // TUTTI_MPI_REPORT=1

// A line for each of these settings whose value is unknown.
std::string UnknownSettingValues();

}  // namespace tutti::pmpi
