// Memory for tests that call collectives: plain, tuttiMemAlloc's and registered, or a GPU's.
//
// Thread-safety: an Arena belongs to one rank.
#pragma once

#include <cstddef>
#include <vector>

#include "testing/gpu.h"
#include "tutti/tutti.h"

namespace tutti::testing {

// A rank's send and receive memory, reused by one case after the other.
class Arena {
 public:
  enum class Kind { plain, allocated, device, in_pieces };
  // `bytes` is each buffer's capacity; allocated memory comes from tuttiMemAlloc.
  Arena(Kind kind, std::size_t bytes);
  // GPU memory. If the thread has a GPU, allocated memory is the GPU's, too. `in_pieces`: each buffer begins shortly before
  // the end of a piece of Gpu::MapPieces.
  Arena(const Gpu& gpu, std::size_t bytes, Kind kind = Kind::device);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Registers both buffers as windows; collective. REQUIRES: allocated, or in pieces.
  void Register(tuttiComm_t comm);
  void Deregister(tuttiComm_t comm);

  // Copies the test's bytes into one of the two buffers, and out of it.
  void Put(std::byte* buffer, const std::vector<std::byte>& bytes) const;
  std::vector<std::byte> Get(const std::byte* buffer, std::size_t bytes) const;

  std::byte* send() { return send_; }
  std::byte* receive() { return receive_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* New() const;
  std::size_t PieceCount() const;

  Kind kind_;
  const Gpu* gpu_ = nullptr;
  std::size_t bytes_;
  std::byte* send_;
  std::byte* receive_;
  std::vector<tuttiWindow_t> windows_;
};

}  // namespace tutti::testing
