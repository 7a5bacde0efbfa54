// A GPU as a test's rank uses it, by the driver's own interface, loaded at run time: a real one, or the stand-in
// (testing/fake_cuda) where there is none.
//
// Thread-safety: a Gpu belongs to the thread that made it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tutti/tutti.h"

namespace tutti::testing {

class Gpu {
 public:
  // Is there a driver and a device?
  static bool Exists();
  // Is it the one that test settings (TUTTI_STANDIN_...) reach?
  static bool IsStandIn();

  // The device's primary context becomes this thread's current one. `ordinal` counts on round the devices there are.
  explicit Gpu(int ordinal);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  int ordinal() const { return ordinal_; }
  // Memory of the GPU alone; or that the host can read and write, too.
  std::byte* Allocate(std::size_t bytes) const;
  std::byte* AllocateShared(std::size_t bytes) const;
  void Free(std::byte* memory) const;
  // Copies to the GPU's memory, and from it.
  void Put(std::byte* to, const void* from, std::size_t bytes) const;
  void Get(void* to, const std::byte* from, std::size_t bytes) const;

  // Streams, graphs: a test fails if the driver refuses.
  tuttiStream_t NewStream() const;
  void DestroyStream(tuttiStream_t stream) const;
  // Success, or tuttiUnhandledCudaError.
  tuttiResult_t Synchronize(tuttiStream_t stream) const;
  enum class Capture { global, thread_local_only };  // whom the driver forbids what a capture cannot take
  void BeginCapture(tuttiStream_t stream, Capture mode = Capture::thread_local_only) const;
  // What was captured, ready to be launched.
  void* EndCapture(tuttiStream_t stream) const;
  void LaunchGraph(void* graph, tuttiStream_t stream) const;
  // In the stream's order.
  void CopyAsync(std::byte* to, const std::byte* from, std::size_t bytes, tuttiStream_t stream) const;
  // Loads the module, and launches its kernel with one struct for a parameter.
  void Launch(const void* image, const char* kernel, unsigned blocks, unsigned threads, void* parameter,
              tuttiStream_t stream) const;
  // `to` of `from`'s stream: what comes after in `to` waits for what is in `from` now.
  void Follow(tuttiStream_t to, tuttiStream_t from) const;

 private:
  int ordinal_;
};

}  // namespace tutti::testing
