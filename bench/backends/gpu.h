// A GPU as a measured rank uses it: memory, a stream, graphs, by the driver's own interface. The driver is loaded at
// run time, so that the bench needs nothing of CUDA where there is no GPU.
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
  // How many there are; 0 without a driver, with the reason in *why if that is not null.
  static int Count(std::string* why = nullptr);

  // The device's primary context becomes this thread's current one. `ordinal` counts on round the devices there are.
  // Throws std::runtime_error, as does everything here.
  explicit Gpu(int ordinal);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  int ordinal() const { return ordinal_; }
  GpuDescription Describe() const;
  GpuStream stream() const { return stream_; }

  std::byte* Allocate(std::size_t bytes) const;
  void Free(std::byte* memory) const;
  // Between host and device, in the order of stream(); back when done.
  void Write(std::byte* to, const std::byte* from, std::size_t bytes) const;
  void Read(std::byte* to, const std::byte* from, std::size_t bytes) const;
  // Between two places of the device, enqueued.
  void Copy(std::byte* to, const std::byte* from, std::size_t bytes) const;
  void Synchronize() const;

  // What is enqueued on stream() between the two is recorded, not run. Other threads may take part: their streams join
  // by Follow.
  void BeginCapture() const;
  // Enqueues what was recorded, once a call.
  std::function<void()> EndCapture() const;
  // What is enqueued on stream() from now on comes after what was enqueued there before Mark.
  std::shared_ptr<void> Mark() const;
  void Follow(const std::shared_ptr<void>& mark) const;

 private:
  int ordinal_;
  GpuStream stream_ = nullptr;
};

}  // namespace tutti::bench
