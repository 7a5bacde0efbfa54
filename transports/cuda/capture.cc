#include "transports/cuda/capture.h"

#include "base/error.h"

namespace tutti::cuda_transport {

CapturePlace PlaceInCapture(const CudaDriver& driver, CuStream stream) {
  int status = 0;
  std::uint64_t id = 0;
  const CuGraphNode* nodes = nullptr;
  std::size_t count = 0;
  const auto result = driver.cuStreamGetCaptureInfo(stream, &status, &id, nullptr, &nodes, &count);
  if (result == kCuErrorInvalidHandle) {
    Throw(tuttiInvalidArgument, "stream {} is not a CUDA stream; was it destroyed?", static_cast<void*>(stream));
  }
  driver.Check(result, "cuStreamGetCaptureInfo");
  if (status != kCuCaptureActive) return {};
  return {id, {nodes, nodes + count}};
}

void PlaceAfter(const CudaDriver& driver, CuStream stream, std::vector<CuGraphNode> nodes) {
  driver.Check(driver.cuStreamUpdateCaptureDependencies(stream, nodes.data(), nodes.size(), kCuSetCaptureDependencies),
               "cuStreamUpdateCaptureDependencies");
}

}  // namespace tutti::cuda_transport
