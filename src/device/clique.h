// Ranks of one communicator that share a process and a GPU. Their kernels wait for each other, and two launches on one
// GPU need not run at the same time: so what must run together is launched together. Each rank brings its calls;
// whoever completes a set that can run launches it, ordered behind the streams of all.
//
// Thread-safety: all member functions may be called from any thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "executors/cuda/kernel_module.h"
#include "src/device/pinned_works.h"

namespace tutti {

// Operations of one rank that follow one another.
struct DeviceCalls {
  DeviceRank* rank = nullptr;
  DeviceQueue* queue = nullptr;
  std::uint64_t* lanes = nullptr;
  int peer = -1;  // of messages; -1: collectives
  bool sends = false;
  std::vector<DeviceWork> works;
  std::vector<std::uint32_t> blocks;  // by work
  std::uint32_t threads = 0;
};

// What one rank brings to a launch.
struct DevicePart {
  int rank = 0;
  std::vector<DeviceCalls> queues;
  CuStream stream = nullptr;
  std::vector<CuStream> other_streams;  // their earlier work comes first, their later work after

  bool HasStream(CuStream wanted) const {
    return stream == wanted || std::find(other_streams.begin(), other_streams.end(), wanted) != other_streams.end();
  }
};

class DeviceClique {
 public:
  // Looked at while waiting for the other ranks: the reason to give up, if there is one.
  using Check = std::function<std::optional<Error>()>;

  // `members`: ranks. `kernels` are those of the shared device.
  DeviceClique(std::vector<int> members, std::shared_ptr<const KernelModule> kernels);

  // Launches the parts of one thread, together with those of the other threads that they wait for. Returns when all
  // are launched; what went wrong, if anything. `timeout`: how long others may not come.
  std::optional<Error> Launch(std::vector<DevicePart> parts, std::chrono::milliseconds timeout, const Check& check);
  // Has any launch been captured? Its graph may run again at any time.
  bool captured() const {
    const std::lock_guard lock(mutex_);
    return last_capture_.has_value();
  }
  // Waits for the kernels that were launched. False after `most`.
  bool AwaitIdle(std::chrono::milliseconds most);

 private:
  struct Deposit {
    DevicePart part;
    std::uint64_t ticket;
    std::thread::id thread;
  };
  struct Bundle;

  std::vector<int> Ready() const;
  std::optional<Error> LaunchReady(const std::vector<int>& ranks);
  void Enqueue(const Bundle& bundle);
  std::optional<Error> Missing(int rank, std::chrono::steady_clock::duration waited,
                               std::chrono::milliseconds timeout) const;

  const std::vector<int> members_;
  const std::shared_ptr<const KernelModule> kernels_;
  const CudaDevice& device_;  // the kernels', which lives as long
  PinnedWorks pinned_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, Deposit> deposits_;             // by rank
  std::map<std::uint64_t, Error> failures_;     // by ticket
  std::map<int, std::thread::id> last_thread_;  // that a rank's calls came from
  std::uint64_t next_ticket_ = 1;
  CudaEvent arrived_;                          // recorded on each other stream in turn
  CudaEvent launched_;                         // after the last launch that was not captured
  CudaEvent captured_;                         // after the last one that was, ...
  std::optional<std::uint64_t> last_capture_;  // ... and in which capture
};

}  // namespace tutti
