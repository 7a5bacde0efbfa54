// The blocks that a device holds at the same time, of all kernels of this process that run on it.
//
// Thread-safety: all of it.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace tutti::fake_gpu {

// Room on a device for some blocks of one kernel, given back at the end.
class Room {
 public:
  // Waits until there is room: for all `blocks` together if the launch is cooperative, else for at least one of them. A
  // cooperative launch also waits for another's end, if the environment says so.
  // `per_multiprocessor`: how many such blocks one multiprocessor holds. REQUIRES: if cooperative, they fit an idle
  // device.
  Room(CUdevice device, std::uint32_t blocks, int per_multiprocessor, bool cooperative);
  ~Room();
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  std::uint32_t blocks() const { return blocks_; }

 private:
  const CUdevice device_;
  const std::uint64_t each_;
  const bool alone_;
  std::uint32_t blocks_ = 0;
};

}  // namespace tutti::fake_gpu
