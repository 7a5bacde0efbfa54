// Where streams are in the capture of a graph.
//
// Thread-safety: a stream is used by one thread at a time. REQUIRES for all: its context is current.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "transports/cuda/driver.h"

namespace tutti::cuda_transport {

struct CapturePlace {
  std::optional<std::uint64_t> capture;  // its number; empty: the stream is not captured
  std::vector<CuGraphNode> nodes;        // that the stream's next work comes after
};

// Throws tuttiInvalidArgument if this is no stream, and tuttiUnhandledCudaError.
CapturePlace PlaceInCapture(const CudaDriver& driver, CuStream stream);

// The captured stream's next work comes after these nodes of the graph alone. Throws tuttiUnhandledCudaError.
void PlaceAfter(const CudaDriver& driver, CuStream stream, std::vector<CuGraphNode> nodes);

}  // namespace tutti::cuda_transport
