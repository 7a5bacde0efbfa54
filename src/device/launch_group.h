// Ranks of one communicator that share a process and a GPU. Their kernels wait for each other, but two launches on one
// GPU may run one after the other, so kernels that must run together are launched together. Each rank brings its calls;
// the rank that completes a runnable set launches it, ordered behind the streams of all.
//
// Thread-safety: all member functions may be called from any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "base/error.h"
#include "executors/cuda/kernel_module.h"
#include "src/device/launch_parts.h"
#include "src/device/pinned_works.h"

namespace tutti::device {

class LaunchGroup {
 public:
  // Polled while waiting for the other ranks: the reason to give up, if any.
  using Check = std::function<std::optional<Error>()>;

  // `members`: ranks. `kernels` are those of the shared device. `spins`: their threads may poll, as each has a processor.
  LaunchGroup(std::vector<int> members, std::shared_ptr<const cuda::KernelModule> kernels, bool spins);

  // Launches one thread's parts, together with the other threads' parts that they wait for. Returns when all are
  // launched, with the failure, if any. `timeout`: how long to wait for other ranks.
  std::optional<Error> Launch(std::vector<DevicePart> parts, std::chrono::milliseconds timeout, const Check& check);
  // Whether any launch was captured: its graph may run again at any time.
  bool captured() const {
    const std::lock_guard lock(mutex_);
    return !captured_.empty();
  }
  // Waits for the kernels that were launched for `rank`. False after `most`.
  bool AwaitIdle(int rank, std::chrono::milliseconds most);

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
  struct Captured {
    std::uint64_t capture;
    cuda_transport::CuGraphNode node;
  };

  template <typename Done>
  bool ComesSoon(Done&& done) const;
  void AwaitTurn();
  void LaunchAllReady();
  std::set<int> AllReady() const;
  std::vector<int> Ready() const;
  bool AreTogether(int rank, int other) const;
  // After the rank's last launch that was not captured.
  const cuda_transport::CudaEvent& Launched(int rank) const;
  void LaunchReady(const std::vector<int>& ranks);
  std::optional<Error> LaunchTogether(const std::vector<int>& ranks);
  void Withdraw(const Outcome& outcome);
  void Enqueue(Bundle& bundle);
  void EnqueueCaptured(Bundle& bundle, std::uint64_t capture);
  void LaunchBundle(Bundle& bundle, bool captured);
  std::optional<Error> EnqueueCopies(const Bundle& bundle) const;
  std::optional<Error> Missing(int rank, std::chrono::steady_clock::duration waited,
                               std::chrono::milliseconds timeout) const;

  const std::vector<int> members_;
  const std::shared_ptr<const cuda::KernelModule> kernels_;
  const cuda_transport::CudaDevice& device_;  // the kernels' device, kept alive by them
  PinnedWorks pinned_;
  const bool spins_;

  mutable std::mutex mutex_;
  std::atomic<std::uint32_t> news_{0};  // how many outcomes were settled: threads sleep until it changes
  std::atomic<int> sleepers_{0};
  std::map<int, Deposit> deposits_;                      // by rank
  Outcome* launcher_ = nullptr;                          // of the thread that launches for all, while it can be called
  std::map<int, std::thread::id> last_thread_;           // the thread of a rank's latest calls
  std::vector<cuda_transport::CudaEvent> arrived_;       // of the other streams of a launch
  // A rank's launches come one after the other, but not after those of other ranks: these may wait for ranks elsewhere.
  cuda_transport::CudaEvent all_launched_;                 // after the last one for all members
  std::map<int, cuda_transport::CudaEvent> own_launched_;  // by rank: after its last one for some members, ...
  std::set<int> apart_;                                    // ... if that came after the last one for all
  std::map<int, Captured> captured_;                       // by rank: its last captured launch
};

}  // namespace tutti::device
