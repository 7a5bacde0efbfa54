// One-sided operations on a GPU: copies into peers' parts of windows, and the signals that announce them.
//
// Counts of signals live on the GPUs (executors/cuda/kernels/signals.h), so that a captured graph can be replayed.
//
// Thread-safety: Enqueue needs the communicator's lock; the rest may be called from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <span>

#include "executors/cuda/kernel_module.h"
#include "src/plan/operation.h"

namespace tutti::device {

class DeviceSignals {
 public:
  // `rank` is this rank's state on the GPU. All outlive this.
  DeviceSignals(const cuda_transport::CudaDevice& device, const cuda_transport::DeviceFabric& fabric,
                const cuda::KernelModule& kernels, cuda_kernels::DeviceRank* rank, int nranks);

  // Enqueues these one-sided operations in order, but a run of puts and signals with its signals last. Throws
  // tuttiUnhandledCudaError. REQUIRES: their peers are on this host.
  void Enqueue(std::span<const plan::Operation* const> operations, cuda_transport::CuStream stream);

  // Of the GPU's memory that is its own.
  std::size_t bytes() const { return counts_.bytes(); }
  // The last operation with that peer that is done.
  std::uint64_t Done(int peer) const;
  // Whether a launch may be running or about to; always once one was captured, as replays are not seen.
  bool MayRun() const { return captured() || LaunchesRun(); }
  bool captured() const { return captured_.load(std::memory_order_acquire); }
  // Waits for launches that were not captured. False after `most`.
  bool AwaitIdle(std::chrono::milliseconds most) const;

 private:
  bool LaunchesRun() const;
  std::uint64_t* Word(std::size_t index) const { return reinterpret_cast<std::uint64_t*>(counts_.data()) + index; }
  cuda_kernels::SignalWork WorkOf(const plan::Operation& operation) const;

  const cuda_transport::CudaDevice& device_;
  const cuda_transport::DeviceFabric& fabric_;
  const cuda::KernelModule& kernels_;
  cuda_kernels::DeviceRank* const rank_;
  const std::size_t nranks_;
  cuda_transport::CudaMemory counts_;  // by peer and signal: sent, then taken; then by peer: operations begun
  cuda_transport::CudaMemory pinned_;  // launches ended, then by peer: operations done
  std::atomic<std::uint64_t> launched_{0};
  std::atomic<bool> captured_{false};
};

}  // namespace tutti::device
