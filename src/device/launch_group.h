// Ranks of one communicator that share a process and a GPU. Their kernels wait for each other, but two launches on one
// GPU may run one after the other, so kernels that must run together are launched together. Each rank brings its calls;
// the rank that completes a runnable set launches it, ordered behind the streams of all.
//
// Thread-safety: all member functions may be called from any thread.
#pragma once

#include <algorithm>
#include <atomic>
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
#include "transports/cuda/arena.h"

namespace tutti::device {

// Consecutive operations of one rank.
struct DeviceCalls {
  cuda_kernels::DeviceRank* rank = nullptr;
  cuda_kernels::DeviceQueue* queue = nullptr;
  std::uint64_t* lanes = nullptr;
  int peer = -1;  // for messages; -1: collectives
  bool sends = false;
  std::vector<cuda_kernels::DeviceWork> works;
  std::vector<std::uint32_t> blocks;  // by work
  std::vector<bool> alone;            // by work: no other collective is in its launch
  std::vector<std::size_t> copied;    // by work: bytes of its input that are copied first (Schedule::separate_input)
  std::uint32_t threads = 0;
};

// One rank's part of a launch.
struct DevicePart {
  int rank = 0;
  std::vector<DeviceCalls> queues;
  cuda_transport::DeviceArena* plans = nullptr;  // where the works' plans are written
  cuda_transport::CuStream stream = nullptr;
  std::vector<cuda_transport::CuStream> other_streams;  // their earlier work comes first, their later work after

  bool HasStream(cuda_transport::CuStream wanted) const {
    return stream == wanted || std::find(other_streams.begin(), other_streams.end(), wanted) != other_streams.end();
  }
};

class LaunchGroup {
 public:
  // Polled while waiting for the other ranks: the reason to give up, if any.
  using Check = std::function<std::optional<Error>()>;

  // `members`: ranks. `kernels` are those of the shared device.
  LaunchGroup(std::vector<int> members, std::shared_ptr<const cuda::KernelModule> kernels);

  // Launches one thread's parts, together with the other threads' parts that they wait for. Returns when all are
  // launched, with the failure, if any. `timeout`: how long to wait for other ranks.
  std::optional<Error> Launch(std::vector<DevicePart> parts, std::chrono::milliseconds timeout, const Check& check);
  // Whether any launch was captured: its graph may run again at any time.
  bool captured() const {
    const std::lock_guard lock(mutex_);
    return last_capture_.has_value();
  }
  // Waits for the launched kernels. False after `most`.
  bool AwaitIdle(std::chrono::milliseconds most);

 private:
  // What becomes of one thread's parts; on its stack while it waits in Launch().
  struct Outcome {
    std::size_t left;  // parts; guarded by mutex_, like the failure until `settled`
    std::optional<Error> failure;
    std::atomic<bool> settled{false};  // all are launched, or there is a failure
    std::atomic<bool> called{false};   // this thread is to launch what is ready
  };
  struct Deposit {
    DevicePart* part;  // like the outcome, its thread's
    Outcome* outcome;
    std::thread::id thread;
  };
  struct Bundle;

  void AwaitTurn();
  void LaunchAllReady();
  std::vector<int> Ready() const;
  void LaunchReady(const std::vector<int>& ranks);
  std::optional<Error> LaunchTogether(const std::vector<int>& ranks);
  void Withdraw(const Outcome& outcome);
  void Enqueue(Bundle& bundle);
  void EnqueueCaptured(Bundle& bundle, std::uint64_t capture);
  void LaunchBundle(Bundle& bundle, bool captured);
  std::optional<Error> Missing(int rank, std::chrono::steady_clock::duration waited,
                               std::chrono::milliseconds timeout) const;

  const std::vector<int> members_;
  const std::shared_ptr<const cuda::KernelModule> kernels_;
  const cuda_transport::CudaDevice& device_;  // the kernels' device, kept alive by them
  PinnedWorks pinned_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, Deposit> deposits_;                      // by rank
  Outcome* launcher_ = nullptr;                          // of the thread that launches for all, while it can be called
  std::map<int, std::thread::id> last_thread_;           // the thread of a rank's latest calls
  std::vector<cuda_transport::CudaEvent> arrived_;       // of the other streams of a launch
  cuda_transport::CudaEvent launched_;                   // after the last launch that was not captured
  std::optional<std::uint64_t> last_capture_;            // of the last captured launch, ...
  cuda_transport::CuGraphNode last_captured_ = nullptr;  // ... and its node
};

}  // namespace tutti::device
