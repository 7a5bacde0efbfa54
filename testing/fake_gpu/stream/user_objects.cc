// User objects: what a graph keeps until nothing can run it any more.
#include <memory>
#include <mutex>

#include "testing/fake_gpu/handles.h"
#include "testing/fake_gpu/stream/capture.h"

namespace tutti::fake_gpu {

UserObject::~UserObject() {
  const InHostFunction here;
  destroy(data);
}

namespace {

// An object and its creator's references to it, which are one to us: the object lives while there are any.
struct Held {
  std::shared_ptr<UserObject> object;
  std::mutex mutex;
  unsigned references;
};

void Release(CUuserObject handle, unsigned count) {
  const auto held = Handles<CUuserObject, Held>().Find(handle);
  const std::lock_guard lock(held->mutex);
  Require(count > 0 && count <= held->references, CUDA_ERROR_INVALID_VALUE);
  held->references -= count;
  if (held->references == 0) Handles<CUuserObject, Held>().Remove(handle);
}

}  // namespace
}  // namespace tutti::fake_gpu

using namespace tutti::fake_gpu;  // NOLINT: what follows is the driver's interface, in no namespace

CUresult cuUserObjectCreate(CUuserObject* handle, void* data, CUhostFn destroy, unsigned references, unsigned flags) {
  return Answer([&] {
    Require(destroy != nullptr && references > 0, CUDA_ERROR_INVALID_VALUE);
    Require(flags == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC, CUDA_ERROR_INVALID_VALUE);
    auto held = std::make_shared<Held>();
    held->object = std::make_shared<UserObject>(data, destroy);
    held->references = references;
    *handle = Handles<CUuserObject, Held>().Add(std::move(held));
  });
}

CUresult cuUserObjectRelease(CUuserObject handle, unsigned count) {
  return Answer([&] { Release(handle, count); });
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject handle, unsigned count, unsigned flags) {
  return Answer([&] {
    Require(count > 0 && flags <= CU_GRAPH_USER_OBJECT_MOVE, CUDA_ERROR_INVALID_VALUE);
    const auto object = Handles<CUuserObject, Held>().Find(handle)->object;
    {
      const std::lock_guard lock(CaptureLock());
      Handles<CUgraph, Graph>().Find(graph)->objects.push_back(object);
    }
    if (flags == CU_GRAPH_USER_OBJECT_MOVE) Release(handle, count);
  });
}
