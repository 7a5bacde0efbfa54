// Owners of a GPU context's resources: memory, streams, events. Also the setup that a driver call needs: the current
// context, and independence from any graph that a thread captures.
//
// Thread-safety: an object is used by one thread at a time, unless it says otherwise.
#pragma once

#include <cstddef>
#include <utility>

#include "base/error.h"
#include "transports/cuda/driver.h"

namespace tutti::cuda_transport {

// While it lives, the thread's current context is the device's primary one, and the thread may allocate, free and query
// even while some thread captures a graph. Otherwise, the driver forbids such calls to all threads during a capture in
// the global mode, and fails that capture. (Work enqueued on a capturing stream is still captured.)
class CurrentDevice {
 public:
  // Throws tuttiUnhandledCudaError.
  CurrentDevice(const CudaDriver& driver, CuContext context);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  const CudaDriver& driver_;
  int mode_;
};

// For destructors. Does nothing if the context is gone, because its resources went with it.
template <typename Release>
void ReleaseIn(const CudaDriver& driver, CuContext context, Release&& release) noexcept {
  try {
    const CurrentDevice current(driver, context);
    release();
  } catch (const Error&) {
  }
}

// Throws tuttiUnhandledCudaError unless `call` has allocated so much memory of the current device.
void CheckAllocation(const CudaDriver& driver, CuResult result, std::size_t bytes, const char* call);

// Makes whole pages of host memory usable by all GPUs, until cuMemHostUnregister. REQUIRES: a context is current. Throws
// tuttiUnhandledCudaError.
void PinHostMemory(const CudaDriver& driver, void* begin, std::size_t bytes);

// Pages that are so, while this lives.
class PinnedPages {
 public:
  PinnedPages(const CudaDriver& driver, CuContext context, std::byte* begin, std::size_t bytes);
  ~PinnedPages();
  PinnedPages(const PinnedPages&) = delete;
  PinnedPages& operator=(const PinnedPages&) = delete;

  std::size_t bytes() const { return bytes_; }

 private:
  const CudaDriver& driver_;
  CuContext context_;
  std::byte* begin_;
  std::size_t bytes_;
};

// Memory of the context's device, or pinned host memory that it reaches. Move-only. Throws tuttiUnhandledCudaError when
// none is left.
class CudaMemory {
 public:
  CudaMemory() = default;
  static CudaMemory OnDevice(const CudaDriver& driver, CuContext context, std::size_t bytes);
  // Without waiting for kernels, as other allocations may; usable in the stream's order.
  static CudaMemory OnDevice(const CudaDriver& driver, CuContext context, std::size_t bytes, CuStream stream);
  static CudaMemory Pinned(const CudaDriver& driver, CuContext context, std::size_t bytes);
  CudaMemory(CudaMemory&& other) noexcept { *this = std::move(other); }
  CudaMemory& operator=(CudaMemory&& other) noexcept;
  ~CudaMemory() { Release(); }

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  CudaMemory(const CudaDriver& driver, CuContext context, void* data, std::size_t bytes, bool pinned);
  void Release();

  const CudaDriver* driver_ = nullptr;
  CuContext context_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  bool pinned_ = false;
};

// Copies in the stream's order. REQUIRES: the context is current. Throws tuttiUnhandledCudaError.
void EnqueueCopy(const CudaDriver& driver, void* to, const void* from, std::size_t bytes, CuStream stream);

// Memory of the device for work in one stream, allocated and freed in its order, also in a captured graph. The context
// is current while it lives. Move-only. Throws tuttiUnhandledCudaError when none is left.
class StreamMemory {
 public:
  // Holds a copy of these bytes, as they are in the stream's order.
  StreamMemory(const CudaDriver& driver, const void* from, std::size_t bytes, CuStream stream);
  StreamMemory(StreamMemory&& other) noexcept
      : driver_(other.driver_), stream_(other.stream_), pointer_(std::exchange(other.pointer_, 0)) {}
  StreamMemory& operator=(StreamMemory&&) = delete;
  ~StreamMemory();

  std::byte* data() const { return reinterpret_cast<std::byte*>(pointer_); }

 private:
  const CudaDriver& driver_;
  CuStream stream_;
  CuPointer pointer_ = 0;
};

// A point in a stream's work. Move-only.
class CudaEvent {
 public:
  CudaEvent(const CudaDriver& driver, CuContext context);
  CudaEvent(CudaEvent&& other) noexcept
      : driver_(other.driver_), context_(other.context_), event_(std::exchange(other.event_, nullptr)) {}
  CudaEvent& operator=(CudaEvent&&) = delete;
  ~CudaEvent();

  // Marks the work that `stream` holds now. REQUIRES, like Block: the context is current.
  void Record(CuStream stream);
  // Makes later work in `stream` wait for what was recorded last.
  void Block(CuStream stream) const;
  // Whether what was recorded last is done; also true if nothing was, or if the context is lost. Thread-safe.
  bool Passed() const;

 private:
  const CudaDriver& driver_;
  CuContext context_;
  CuEvent event_ = nullptr;
};

// A separate stream for a communicator's own work: copies of plans, zeroing.
class SideStream {
 public:
  SideStream(const CudaDriver& driver, CuContext context);
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  // Return when done; CopyLater() when it has read `from`, which is pageable. Later work of `other` waits for it, or,
  // where that stream's work is captured and cannot, this thread.
  void CopyLater(void* to, const void* from, std::size_t bytes);
  void Precede(CuStream other, bool captured);
  void Copy(void* to, const void* from, std::size_t bytes);
  void Zero(void* to, std::size_t bytes);
  // `enqueue`: called with the stream, in its context.
  template <typename Enqueue>
  void Run(Enqueue&& enqueue) {
    const CurrentDevice current(driver_, context_);
    enqueue(stream_);
    driver_.Check(driver_.cuStreamSynchronize(stream_), "cuStreamSynchronize");
  }
  CuStream stream() const { return stream_; }

 private:
  const CudaDriver& driver_;
  CuContext context_;
  CuStream stream_ = nullptr;
  CudaEvent copied_;      // after the last CopyLater()
  bool pending_ = false;  // it was not known to have passed when last looked
};

}  // namespace tutti::cuda_transport
