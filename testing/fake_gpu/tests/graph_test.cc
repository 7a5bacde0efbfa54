#include <array>
#include <atomic>
#include <thread>

#include "testing/fake_gpu/tests/driver_fixture.h"

namespace tutti::fake_gpu {
namespace {

class Graphs : public Driver {
 protected:
  void SetUp() override {
    Driver::SetUp();
    stream_ = NewStream();
    other_ = NewStream();
    event_ = NewEvent();
    pointer_ = Allocate(8);
    ASSERT_EQ(cuMemsetD8(pointer_, 0, 8), CUDA_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(cuMemFree(pointer_), CUDA_SUCCESS);
    EXPECT_EQ(cuEventDestroy(event_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamDestroy(stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamDestroy(other_), CUDA_SUCCESS);
    Driver::TearDown();
  }

  void Begin(CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
    ASSERT_EQ(cuStreamBeginCapture(stream_, mode), CUDA_SUCCESS);
  }
  void Fork() {
    EXPECT_EQ(cuEventRecord(event_, stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamWaitEvent(other_, event_, 0), CUDA_SUCCESS);
  }
  void JoinBack() {
    EXPECT_EQ(cuEventRecord(event_, other_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamWaitEvent(stream_, event_, 0), CUDA_SUCCESS);
  }
  CUresult End() {
    CUgraph graph = nullptr;
    const CUresult result = cuStreamEndCapture(stream_, &graph);
    if (result == CUDA_SUCCESS) {
      EXPECT_EQ(cuGraphInstantiateWithFlags(&exec_, graph, 0), CUDA_SUCCESS);
      EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
    }
    return result;
  }
  void Replay() {
    EXPECT_EQ(cuGraphLaunch(exec_, stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  }
  unsigned Value(int index) const { return As<unsigned>(pointer_)[index]; }

  CUstream stream_ = nullptr;
  CUstream other_ = nullptr;
  CUevent event_ = nullptr;
  CUdeviceptr pointer_ = 0;
  CUgraphExec exec_ = nullptr;
};

TEST_F(Graphs, WorkIsRecordedAndReplayed) {
  Begin();
  EXPECT_EQ(cuMemsetD32Async(pointer_, 5, 1, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyDtoDAsync(pointer_ + 4, pointer_, 4, stream_), CUDA_SUCCESS);
  CUstreamCaptureStatus status{};
  cuuint64_t id = 0;
  EXPECT_EQ(cuStreamGetCaptureInfo(stream_, &status, &id, nullptr, nullptr, nullptr, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_NE(id, 0U);
  ASSERT_EQ(End(), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamIsCapturing(stream_, &status), CUDA_SUCCESS);
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(Value(0), 0U);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(cuMemsetD8(pointer_, 0, 8), CUDA_SUCCESS);
    Replay();
    EXPECT_EQ(Value(1), 5U);
  }
  EXPECT_EQ(cuGraphExecDestroy(exec_), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphLaunch(exec_, stream_), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(Graphs, KernelsOfForkedStreamsMeetInAReplay) {
  Begin();
  Fork();
  const Meeting meeting{As<std::uint32_t>(pointer_), 2};
  EXPECT_EQ(Launch("meeting", meeting, stream_, 1, 1), CUDA_SUCCESS);
  EXPECT_EQ(Launch("meeting", meeting, other_, 1, 1), CUDA_SUCCESS);
  JoinBack();
  EXPECT_EQ(cuMemcpyDtoDAsync(pointer_ + 4, pointer_, 4, stream_), CUDA_SUCCESS);
  ASSERT_EQ(End(), CUDA_SUCCESS);
  Replay();
  EXPECT_EQ(Value(1), 2U);
  EXPECT_EQ(cuGraphExecDestroy(exec_), CUDA_SUCCESS);
}

TEST_F(Graphs, AStreamMayBePlacedAfterOtherNodes) {
  const auto nodes_of = [&](CUstream stream) {
    CUstreamCaptureStatus status{};
    cuuint64_t id = 0;
    const CUgraphNode* nodes = nullptr;
    std::size_t count = 0;
    EXPECT_EQ(cuStreamGetCaptureInfo(stream, &status, &id, nullptr, &nodes, nullptr, &count), CUDA_SUCCESS);
    return std::vector<CUgraphNode>(nodes, nodes + count);
  };
  Begin();
  EXPECT_TRUE(nodes_of(stream_).empty());
  Fork();
  EXPECT_EQ(cuMemsetD32Async(pointer_, 5, 1, other_), CUDA_SUCCESS);
  auto nodes = nodes_of(other_);
  EXPECT_EQ(nodes.size(), 1U);
  EXPECT_EQ(cuStreamUpdateCaptureDependencies(stream_, nodes.data(), nullptr, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES),
            CUDA_SUCCESS);
  EXPECT_EQ(nodes_of(stream_), nodes);
  EXPECT_EQ(cuMemcpyDtoDAsync(pointer_ + 4, pointer_, 4, stream_), CUDA_SUCCESS);
  auto unknown = reinterpret_cast<CUgraphNode>(9);
  EXPECT_EQ(cuStreamUpdateCaptureDependencies(stream_, &unknown, nullptr, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES),
            CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(End(), CUDA_SUCCESS);  // it is joined without an event
  Replay();
  EXPECT_EQ(Value(1), 5U);
  EXPECT_EQ(cuGraphExecDestroy(exec_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamUpdateCaptureDependencies(stream_, nodes.data(), nullptr, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES),
            CUDA_ERROR_ILLEGAL_STATE);
}

TEST_F(Graphs, AForkedStreamMustBeJoined) {
  Begin();
  Fork();
  EXPECT_EQ(cuMemsetD32Async(pointer_, 5, 1, other_), CUDA_SUCCESS);
  EXPECT_EQ(End(), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  EXPECT_EQ(cuStreamSynchronize(other_), CUDA_SUCCESS);  // it is no longer captured
}

TEST_F(Graphs, CallsThatACaptureForbidsSpoilIt) {
  Begin();
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(cuMemsetD32Async(pointer_, 5, 1, stream_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(End(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  Begin();
  CUdeviceptr memory = 0;
  EXPECT_EQ(cuMemAlloc(&memory, 4), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(End(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(Graphs, ARelaxedThreadMayCallThem) {
  Begin();
  auto mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
  EXPECT_EQ(cuMemFree(Allocate(4)), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(other_), CUDA_SUCCESS);
  EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(End(), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphExecDestroy(exec_), CUDA_SUCCESS);
}

TEST_F(Graphs, ThreadsDisturbOnlyGlobalCaptures) {
  const auto synchronize_elsewhere = [&] {
    CUresult result{};
    std::thread([&] { result = cuStreamSynchronize(other_); }).join();
    return result;
  };
  Begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  EXPECT_EQ(synchronize_elsewhere(), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  CUresult ended{};
  std::thread([&] { ended = cuStreamEndCapture(stream_, &graph); }).join();
  EXPECT_EQ(ended, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  EXPECT_EQ(End(), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphExecDestroy(exec_), CUDA_SUCCESS);
  Begin();
  EXPECT_EQ(synchronize_elsewhere(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(End(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(Graphs, CapturedAndOtherWorkDoNotMix) {
  const auto outside = NewEvent();
  EXPECT_EQ(cuEventRecord(outside, other_), CUDA_SUCCESS);
  Begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(cuStreamWaitEvent(stream_, outside, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  EXPECT_EQ(cuEventRecord(event_, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event_), CUDA_ERROR_CAPTURED_EVENT);
  ASSERT_EQ(End(), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(cuGraphExecDestroy(exec_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventDestroy(outside), CUDA_SUCCESS);
}

TEST_F(Graphs, NodesAreCounted) {
  CUgraph graph = nullptr;
  Begin();
  EXPECT_EQ(cuMemsetD8Async(pointer_, 1, 4, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD8Async(pointer_, 2, 4, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
  std::size_t count = 0;
  EXPECT_EQ(cuGraphGetNodes(graph, nullptr, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 2U);
  std::array<CUgraphNode, 3> nodes{};
  count = nodes.size();
  EXPECT_EQ(cuGraphGetNodes(graph, nodes.data(), &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 2U);
  EXPECT_NE(nodes[0], nodes[1]);
  EXPECT_EQ(nodes[2], nullptr);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphGetNodes(graph, nullptr, &count), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(Graphs, AUserObjectLivesAsLongAsTheGraphCanRun) {
  static std::atomic<int> destroyed;
  destroyed = 0;
  const auto destroy = [](void* data) { destroyed += *static_cast<int*>(data); };
  int data = 7;
  CUuserObject object = nullptr;
  ASSERT_EQ(cuUserObjectCreate(&object, &data, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  Begin();
  EXPECT_EQ(cuMemsetD8Async(pointer_, 1, 4, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE), CUDA_SUCCESS);
  EXPECT_EQ(cuUserObjectRelease(object, 1), CUDA_ERROR_INVALID_HANDLE);  // the reference was moved
  ASSERT_EQ(cuGraphInstantiateWithFlags(&exec_, graph, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  Replay();
  EXPECT_EQ(destroyed, 0);
  EXPECT_EQ(cuGraphExecDestroy(exec_), CUDA_SUCCESS);
  while (destroyed == 0) std::this_thread::yield();  // the stream drops what it has run a moment after it is done
  EXPECT_EQ(destroyed, 7);
}

TEST_F(Graphs, AUserObjectThatNoGraphKeepsEndsWithItsLastReference) {
  static int destroyed;
  destroyed = 0;
  CUuserObject object = nullptr;
  const auto destroy = [](void* /*data*/) { ++destroyed; };
  ASSERT_EQ(cuUserObjectCreate(&object, nullptr, destroy, 2, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC), CUDA_SUCCESS);
  EXPECT_EQ(cuUserObjectRelease(object, 3), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuUserObjectRelease(object, 1), CUDA_SUCCESS);
  EXPECT_EQ(destroyed, 0);
  EXPECT_EQ(cuUserObjectRelease(object, 1), CUDA_SUCCESS);
  EXPECT_EQ(destroyed, 1);
}

}  // namespace
}  // namespace tutti::fake_gpu
