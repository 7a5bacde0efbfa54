#include "testing/fake_gpu/stream/capture.h"

#include <algorithm>
#include <condition_variable>
#include <utility>

#include "testing/fake_gpu/environment.h"
#include "testing/fake_gpu/handles.h"
#include "testing/fake_gpu/stream/thread_pool.h"

namespace tutti::fake_gpu {
namespace {

std::uint64_t NextId() {
  static std::atomic<std::uint64_t> next{1};
  return next++;
}

// Captures that have begun and not ended. Guarded by the lock.
std::set<Capture*>& Ongoing() {
  static auto* ongoing = new std::set<Capture*>;
  return *ongoing;
}

thread_local CUstreamCaptureMode mode_of_thread = CU_STREAM_CAPTURE_MODE_GLOBAL;

// Whether this thread's unsafe calls would disturb the capture.
bool Disturbs(const Capture& capture) {
  const bool mine = capture.thread == std::this_thread::get_id();
  switch (mode_of_thread) {
    case CU_STREAM_CAPTURE_MODE_GLOBAL:
      return capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
             (mine && capture.mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    case CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: return mine && capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    default: return false;
  }
}

std::size_t NumberOf(CUgraphNode handle) { return reinterpret_cast<std::size_t>(handle) - 1; }

}  // namespace

std::mutex& CaptureLock() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

Capture::Capture(Stream& origin, CUstreamCaptureMode mode)
    : id(NextId()), mode(mode), handle(Handles<CUgraph, Graph>().Add(graph)), origin_(&origin) {
  ComeAfter(origin, {});
  Ongoing().insert(this);
}

void Capture::Add(Stream& stream, Work work) {
  auto& lane = lanes_.at(&stream);
  graph->nodes.push_back({std::move(work), lane.number, std::exchange(lane.last, {graph->nodes.size()})});
}

void Capture::ComeAfter(Stream& stream, const std::set<std::size_t>& nodes) {
  auto found = lanes_.find(&stream);
  if (found == lanes_.end()) {
    found = lanes_.emplace(&stream, Lane{graph->lanes++, {}, stream.shared_from_this(), {}}).first;
  }
  found->second.last.insert(nodes.begin(), nodes.end());
}

const std::vector<CUgraphNode>& Capture::LastAsHandles(Stream& stream) {
  auto& lane = lanes_.at(&stream);
  lane.last_handles.clear();
  for (const std::size_t node : lane.last) lane.last_handles.push_back(HandleOf(node));
  return lane.last_handles;
}

void Capture::ComeAfterHandles(Stream& stream, std::span<const CUgraphNode> nodes, bool replaces) {
  std::set<std::size_t> numbers;
  for (const CUgraphNode node : nodes) {
    Require(NumberOf(node) < graph->nodes.size(), CUDA_ERROR_INVALID_VALUE);
    numbers.insert(NumberOf(node));
  }
  if (replaces) lanes_.at(&stream).last.clear();
  ComeAfter(stream, numbers);
}

bool Capture::Joined() const {
  std::set<std::size_t> before = lanes_.at(origin_).last;
  for (auto node = graph->nodes.size(); node-- > 0;) {
    if (!before.contains(node)) return false;  // the origin's end does not come after this node
    before.insert(graph->nodes[node].after.begin(), graph->nodes[node].after.end());
  }
  return true;
}

void Capture::End() {
  Ongoing().erase(this);
  for (auto& [stream, lane] : std::exchange(lanes_, {})) stream->capture = nullptr;
}

void Graph::Run() const {
  if (TheEnvironment().synchronous) {
    for (const auto& node : nodes) node.work();
    return;
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<bool> done(nodes.size());
  RunTogether(lanes, [&](std::size_t lane) {
    for (std::size_t number = 0; number < nodes.size(); ++number) {
      const Node& node = nodes[number];
      if (node.lane != lane) continue;
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] {
        return std::all_of(node.after.begin(), node.after.end(), [&](std::size_t each) { return done[each]; });
      });
      lock.unlock();
      node.work();
      lock.lock();
      done[number] = true;
      changed.notify_all();
    }
  });
}

bool Recorded(Stream& stream, Work& work) {
  const std::lock_guard lock(CaptureLock());
  if (stream.capture != nullptr) {
    Require(!stream.capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    stream.capture->Add(stream, std::move(work));
    return true;
  }
  if (!IsNullStream(stream)) return false;
  for (const auto* capture : Ongoing()) {  // the null stream would have to wait for work that never runs
    const Stream& origin = *capture->origin();
    Require(origin.device() != stream.device() || !origin.blocking(), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  }
  return false;
}

void ForbidOnCaptured(Stream& stream) {
  const std::lock_guard lock(CaptureLock());
  if (stream.capture == nullptr) return;
  stream.capture->invalid = true;
  Fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

void ForbidWhileCapturing() {
  const std::lock_guard lock(CaptureLock());
  bool disturbed = false;
  for (auto* capture : Ongoing()) {
    if (!Disturbs(*capture)) continue;
    capture->invalid = true;
    disturbed = true;
  }
  Require(!disturbed, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

}  // namespace tutti::fake_gpu

using namespace tutti::fake_gpu;  // NOLINT: what follows is the driver's interface, in no namespace

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return Answer([&] {
    Require(*mode <= CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_ERROR_INVALID_VALUE);
    std::swap(*mode, mode_of_thread);
  });
}
