// The driver's interface to captures and graphs.
#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "testing/fake_gpu/devices.h"
#include "testing/fake_gpu/handles.h"
#include "testing/fake_gpu/stream/capture.h"
#include "testing/fake_gpu/stream/stream.h"

namespace tutti::fake_gpu {
namespace {

class GraphExec {
 public:
  explicit GraphExec(const Graph& graph) : graph_(std::make_shared<const Graph>(graph)) {}

  // Launches run one after the other, whatever their streams.
  void Launch(const std::shared_ptr<Stream>& stream) {
    const std::lock_guard lock(mutex_);
    last_ = Enqueue(stream, [graph = graph_, before = last_] {
      before.Wait();
      QueueHead::Begun();  // of its nodes the queue knows nothing
      graph->Run();
    });
  }

 private:
  const std::shared_ptr<const Graph> graph_;
  std::mutex mutex_;
  Moment last_;
};

CUstreamCaptureStatus StatusOf(const Stream& stream) {
  if (stream.capture == nullptr) return CU_STREAM_CAPTURE_STATUS_NONE;
  return stream.capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

template <class T>
void Set(T* where, T what) {
  if (where != nullptr) *where = what;
}

}  // namespace
}  // namespace tutti::fake_gpu

using namespace tutti::fake_gpu;  // NOLINT: what follows is the driver's interface, in no namespace

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  return Answer([&] {
    const auto stream = StreamOf(handle);
    Require(mode <= CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_ERROR_INVALID_VALUE);
    Require(!IsNullStream(*stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    const std::lock_guard lock(CaptureLock());
    Require(stream->capture == nullptr, CUDA_ERROR_ILLEGAL_STATE);
    stream->capture = std::make_shared<Capture>(*stream, mode);
  });
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  return Answer([&] {
    *graph = nullptr;
    const auto stream = StreamOf(handle);
    const std::lock_guard lock(CaptureLock());
    const auto capture = stream->capture;
    Require(capture != nullptr, CUDA_ERROR_ILLEGAL_STATE);
    Require(capture->origin() == stream.get(), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    const bool own = capture->thread == std::this_thread::get_id() || capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED;
    Require(own, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    const bool joined = capture->Joined();
    capture->End();
    if (capture->invalid || !joined) {
      Handles<CUgraph, Graph>().Remove(capture->handle);
      Fail(capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    }
    *graph = capture->handle;
  });
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  return Answer([&] {
    const auto stream = StreamOf(handle);
    const std::lock_guard lock(CaptureLock());
    *status = StatusOf(*stream);
  });
}

CUresult cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                const CUgraphNode** nodes, const CUgraphEdgeData** edges, std::size_t* count) {
  return Answer([&] {
    const auto stream = StreamOf(handle);
    const std::lock_guard lock(CaptureLock());
    Require(status != nullptr, CUDA_ERROR_INVALID_VALUE);
    *status = StatusOf(*stream);
    if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return;
    Set<cuuint64_t>(id, stream->capture->id);
    Set(graph, stream->capture->handle);
    const auto& last = stream->capture->LastAsHandles(*stream);
    Set(nodes, last.data());
    Set<const CUgraphEdgeData*>(edges, nullptr);
    Set(count, last.size());
  });
}

// The entry point of CUDA 12, whose name <cuda.h> maps to the one above.
extern "C" CUresult StreamGetCaptureInfoV2(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                                           CUgraph* graph, const CUgraphNode** nodes,
                                           std::size_t* count) __asm__("cuStreamGetCaptureInfo_v2");
CUresult StreamGetCaptureInfoV2(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                const CUgraphNode** nodes, std::size_t* count) {
  return cuStreamGetCaptureInfo(handle, status, id, graph, nodes, nullptr, count);
}

CUresult cuStreamUpdateCaptureDependencies(CUstream handle, CUgraphNode* nodes, const CUgraphEdgeData* edges,
                                           std::size_t count, unsigned flags) {
  return Answer([&] {
    const auto stream = StreamOf(handle);
    const std::lock_guard lock(CaptureLock());
    Require(StatusOf(*stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE, CUDA_ERROR_ILLEGAL_STATE);
    Require(edges == nullptr && flags <= CU_STREAM_SET_CAPTURE_DEPENDENCIES, CUDA_ERROR_INVALID_VALUE);
    stream->capture->ComeAfterHandles(*stream, {nodes, count}, flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES);
  });
}

extern "C" CUresult StreamUpdateCaptureDependenciesV1(CUstream handle, CUgraphNode* nodes, std::size_t count,
                                                      unsigned flags) __asm__("cuStreamUpdateCaptureDependencies");
CUresult StreamUpdateCaptureDependenciesV1(CUstream handle, CUgraphNode* nodes, std::size_t count, unsigned flags) {
  return cuStreamUpdateCaptureDependencies(handle, nodes, nullptr, count, flags);
}

// Without an array for them, counts the nodes.
CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, std::size_t* count) {
  return Answer([&] {
    Require(count != nullptr, CUDA_ERROR_INVALID_VALUE);
    const std::lock_guard lock(CaptureLock());
    const std::size_t all = Handles<CUgraph, Graph>().Find(handle)->nodes.size();
    if (nodes == nullptr) {
      *count = all;
      return;
    }
    for (std::size_t node = 0; node < *count; ++node) nodes[node] = node < all ? HandleOf(node) : nullptr;
    *count = std::min(*count, all);
  });
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph handle, unsigned long long /*flags*/) {
  return Answer([&] {
    const auto graph = Handles<CUgraph, Graph>().Find(handle);
    *exec = Handles<CUgraphExec, GraphExec>().Add(std::make_shared<GraphExec>(*graph));
  });
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  return Answer([&] { Handles<CUgraphExec, GraphExec>().Find(exec)->Launch(StreamOf(stream)); });
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
  return Answer([&] {
    Handles<CUgraphExec, GraphExec>().Find(exec);
    StreamOf(stream);
  });
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  return Answer([&] { Handles<CUgraphExec, GraphExec>().Remove(exec); });
}

CUresult cuGraphDestroy(CUgraph graph) {
  return Answer([&] { Handles<CUgraph, Graph>().Remove(graph); });
}
