// The tuttiStream_t handles of this library's streams.
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/fork_safe_mutex.h"
#include "base/threads/made_once.h"
#include "src/calls/streams/stream.h"

namespace tutti::calls {
namespace {

struct Register {
  ForkSafeMutex mutex;
  std::unordered_map<tuttiStream_t, std::shared_ptr<Stream>> streams;
};

// Never destroyed: a process may exit while streams work, and a child of fork() has none of their threads.
Register& TheRegister() {
  static constinit MadeOnce<Register> all;
  return all.Get();
}

[[noreturn]] void RefuseStream(tuttiStream_t handle) {
  if (handle == nullptr) Throw(tuttiInvalidArgument, "stream is NULL");
  Throw(tuttiInvalidArgument, "stream {} was not made by tuttiStreamCreate, or has been destroyed", handle);
}

void RequireOwn(const Stream& stream) {
  if (stream.birthmark().OfThisProcess()) return;
  Throw(tuttiInvalidUsage, "stream {} belongs to the parent process; after fork() a child must make its own",
        static_cast<const void*>(&stream));
}

}  // namespace

tuttiStream_t NewStream() {
  auto stream = std::make_shared<Stream>();
  auto* const handle = stream.get();
  auto& all = TheRegister();
  const std::lock_guard lock(all.mutex);
  all.streams.emplace(handle, std::move(stream));
  return handle;
}

void DestroyStream(tuttiStream_t handle) {
  const auto stream = [&] {
    auto& all = TheRegister();
    const std::lock_guard lock(all.mutex);
    const auto found = all.streams.find(handle);
    if (found == all.streams.end()) RefuseStream(handle);
    RequireOwn(*found->second);
    auto taken = std::move(found->second);
    all.streams.erase(found);
    return taken;
  }();
  // Called by the one thread that took it out of the register. Other threads that still hold it find it ended.
  stream->Finish();
}

std::shared_ptr<Stream> FindStream(tuttiStream_t handle) {
  auto& all = TheRegister();
  const std::lock_guard lock(all.mutex);
  const auto found = all.streams.find(handle);
  if (found == all.streams.end()) return nullptr;
  RequireOwn(*found->second);
  return found->second;
}

std::shared_ptr<Stream> CheckedStream(tuttiStream_t handle) {
  auto stream = FindStream(handle);
  if (stream == nullptr) RefuseStream(handle);
  return stream;
}

}  // namespace tutti::calls
