// The settings that ranks exchange when a communicator is made: those that plans depend on must be equal, those that
// waiting depends on are shared.
//
// Thread-safety: a collective function without state.
#pragma once

#include <string>
#include <vector>

#include "src/init/meeting.h"

namespace tutti::init {

struct Agreement {
  std::vector<std::vector<int>> processors = {};  // by rank: those of its machine that it may run on, ascending
  int cores = 1;                                  // that this machine's ranks share
  int neighbours = 0;                             // number of those ranks, this one included
  int threads = 1;                                // that move data, of the rank with the most
  bool threads_forced = false;                    // by the settings of a rank
  bool programs = false;                          // rank 0 names some
  std::size_t slot_span = 0;                      // of this machine's ranks (shm::Fabric::SpreadSlots)
  std::string why_no_device;                      // empty: every rank has one
};

// Collective. `device`: this rank's, or TUTTI_DEVICE_NONE. `most_threads`: of a rank that says nothing of threads. Throws tuttiInvalidUsage, naming the setting, both values
// and the rank, where ranks differ.
Agreement Agree(const Meeting& meeting, int device, int most_threads);

}  // namespace tutti::init
