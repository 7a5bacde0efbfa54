// All-gathers and all-to-alls that the GPU's copy engines carry (TUTTI_COPY_ENGINE), so that the program's own kernels keep the
// multiprocessors: each rank copies what the others have for it into its output. Their inputs lie in a symmetric window, at
// one offset on all ranks, so a rank knows where. A barrier before the copies says that every rank's stream has come to the
// call, one behind them that nobody reads the inputs any more. Both have the call's identity, so that calls that do not match
// are found as in any other plan. After a failure a copy still runs, but writes nothing of another rank's.
//
// Thread-safety: pure function of its arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "src/device/windows.h"
#include "src/plan/operation.h"

namespace tutti::device {

struct EngineCopy {
  void* to;
  const void* from;
  std::size_t bytes;
};

struct EngineCopies {
  std::vector<EngineCopy> all;
  std::uint64_t place;  // DeviceWork::place, from the window and the offset in it
  std::size_t bytes;    // to other ranks, and from them
};

// nullopt: kernels carry the call. The same on all ranks that keep a symmetric window's promise. REQUIRES: all ranks are on
// one host, and their GPUs reach each other.
std::optional<EngineCopies> CopiesByEngines(const plan::Operation& operation, int rank, int nranks,
                                            const DeviceWindows& windows);

}  // namespace tutti::device
