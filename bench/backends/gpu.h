// A GPU as a measured rank uses it: memory, a stream and graphs, through the driver's own interface. The driver is
// loaded at run time, so that the bench needs no CUDA on machines without a GPU.
//
// Thread-safety: a Gpu belongs to the thread that made it; the static functions may be called from any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace tutti::bench {

using GpuStream = void*;  // a CUstream, which is a cudaStream_t
using GpuEvent = void*;

struct GpuDescription {
  std::string name;
  int driver = 0;  // CUDA version that the driver is for: 1000 * major + 10 * minor
  int multiprocessors = 0;
  int compute_capability = 0;  // 10 * major + minor
  double clock_mhz = 0, memory_clock_mhz = 0;
  std::size_t memory = 0;
};

class Gpu {
 public:
  // The number of GPUs; 0 without a driver, with the reason in *why if that is not null.
  static int Count(std::string* why = nullptr);

  // Makes the device's primary context current in this thread. `ordinal` wraps around the number of devices. Throws
  // std::runtime_error, as do all functions here.
  explicit Gpu(int ordinal);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  int ordinal() const { return ordinal_; }
  GpuDescription Describe() const;
  GpuStream stream() const { return stream_; }

  std::byte* Allocate(std::size_t bytes) const;
  void Free(std::byte* memory) const;
  // Copies between host and device, in the order of stream(); returns when done.
  void Write(std::byte* to, const std::byte* from, std::size_t bytes) const;
  void Read(std::byte* to, const std::byte* from, std::size_t bytes) const;
  // Enqueues a copy within the device.
  void Copy(std::byte* to, const std::byte* from, std::size_t bytes) const;
  void Synchronize() const;

  // Work enqueued on stream() between the two is recorded, not run. Other threads take part if their streams join by
  // Follow.
  void BeginCapture() const;
  // Each call of the result enqueues the recorded work once.
  std::function<void()> EndCapture() const;
  // Work enqueued on stream() after Follow runs after the work that was enqueued before Mark.
  std::shared_ptr<void> Mark() const;
  void Follow(const std::shared_ptr<void>& mark) const;

 private:
  int ordinal_;
  GpuStream stream_ = nullptr;
};

}  // namespace tutti::bench
