// A GPU as a test's rank uses it, through the driver's own interface, loaded at run time: a real one, or the fake GPU
// (testing/fake_gpu) if there is none.
//
// Thread-safety: a Gpu belongs to the thread that made it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tutti/tutti.h"

namespace tutti::testing {

class Gpu {
 public:
  // Devices, 0 without a driver.
  static int Count();
  static bool Exists() { return Count() > 0; }
  // Whether it is the one that test settings (TUTTI_FAKE_GPU_...) configure.
  static bool IsFake();

  // Makes the device's primary context current in this thread. `ordinal` wraps around the number of devices.
  explicit Gpu(int ordinal);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  int ordinal() const { return ordinal_; }
  // For a thread that uses several.
  void MakeCurrent() const;
  // Memory of the GPU alone, or memory that the host can also access.
  std::byte* Allocate(std::size_t bytes) const;
  std::byte* AllocateShared(std::size_t bytes) const;
  void Free(std::byte* memory) const;
  // Pieces of physical memory that are mapped side by side, as PyTorch's expandable segments are. `shareable`: other
  // processes can get them.
  static constexpr std::size_t kPiece = std::size_t{2} << 20;
  std::byte* MapPieces(std::size_t count, bool shareable = true) const;
  void UnmapPiece(std::byte* memory, std::size_t piece) const;
  void UnmapPieces(std::byte* memory, std::size_t count) const;
  // What other programs could take.
  std::size_t FreeBytes() const;
  // Copies to the GPU's memory, and from it.
  void Put(std::byte* to, const void* from, std::size_t bytes) const;
  void Get(void* to, const std::byte* from, std::size_t bytes) const;

  // Streams and graphs. A test fails if the driver refuses.
  tuttiStream_t NewStream() const;
  void DestroyStream(tuttiStream_t stream) const;
  // Success, or tuttiUnhandledCudaError.
  tuttiResult_t Synchronize(tuttiStream_t stream) const;
  // Something on the stream has not ended.
  bool Busy(tuttiStream_t stream) const;
  enum class Capture { global, thread_local_only };  // threads that the driver forbids unsafe calls
  void BeginCapture(tuttiStream_t stream, Capture mode = Capture::thread_local_only) const;
  // The captured graph, ready to launch.
  void* EndCapture(tuttiStream_t stream) const;
  // Nodes of the graph that the captured stream's next work comes after.
  std::size_t NodesBefore(tuttiStream_t stream) const;
  void LaunchGraph(void* graph, tuttiStream_t stream) const;
  // In stream order.
  void CopyAsync(std::byte* to, const std::byte* from, std::size_t bytes, tuttiStream_t stream) const;
  // Loads the module, and launches its kernel with one struct as its parameter. Returns the driver's code for the launch:
  // a kernel that faults at once may spoil it.
  int Launch(const void* image, const char* kernel, unsigned blocks, unsigned threads, void* parameter,
             tuttiStream_t stream) const;
  // How many of this process's calls have waited for work of the fake GPU, which alone counts them.
  static std::uint64_t Waits();
  // Lets this GPU's kernels use the other one's memory. False: the driver refuses.
  bool Reach(const Gpu& other) const;
  // Makes later work in `to` wait for the present work in `from`.
  void Follow(tuttiStream_t to, tuttiStream_t from) const;

 private:
  int ordinal_;
  void* context_ = nullptr;
};

}  // namespace tutti::testing
