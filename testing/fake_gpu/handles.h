// Objects that callers refer to by a handle.
//
// A handle is never reused, whatever its kind, so one that was destroyed or is of another kind is detected.
// Thread-safety: all of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "testing/fake_gpu/call.h"

namespace tutti::fake_gpu {

// Above the handles with a meaning of their own (streams 0, 1 and 2), and never a valid address.
inline std::uintptr_t NextHandle() {
  static std::atomic<std::uintptr_t> next{0x100};
  return next.fetch_add(0x10);
}

template <class Handle, class Thing>
class HandleTable {
 public:
  Handle Add(std::shared_ptr<Thing> thing) {
    auto* handle = reinterpret_cast<Handle>(NextHandle());
    const std::lock_guard lock(mutex_);
    things_.emplace(handle, std::move(thing));
    return handle;
  }

  std::shared_ptr<Thing> Find(Handle handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = things_.find(handle);
    Require(found != things_.end(), CUDA_ERROR_INVALID_HANDLE);
    return found->second;
  }

  std::shared_ptr<Thing> Remove(Handle handle) {
    const std::lock_guard lock(mutex_);
    auto node = things_.extract(handle);
    Require(!node.empty(), CUDA_ERROR_INVALID_HANDLE);
    return std::move(node.mapped());
  }

  std::vector<std::shared_ptr<Thing>> All() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<Thing>> all;
    for (const auto& [handle, thing] : things_) all.push_back(thing);
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::map<Handle, std::shared_ptr<Thing>> things_;
};

// A table for the process, never destroyed, because threads of streams may outlive main.
template <class Handle, class Thing>
HandleTable<Handle, Thing>& Handles() {
  static auto* table = new HandleTable<Handle, Thing>;
  return *table;
}

}  // namespace tutti::fake_gpu
