// A device's kernels in a process of their own, its processor (TUTTI_FAKE_GPU_APART). It has the memory that the device
// may use (processors.h), at the same addresses, and nothing else of this process, so a kernel that uses any other memory
// faults there. In this process, device memory is only an address: host code that touches it faults here. Both faults
// print a stack.
//
// Thread-safety: all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "testing/fake_gpu/processor/message.h"

namespace tutti::fake_gpu {

// One conversation with the processor, which answers each request before it reads the next one.
class Channel {
 public:
  explicit Channel(int socket) : socket_(socket) {}
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  // False if the processor is gone.
  bool Ask(const Request& request, std::span<const std::byte> parameter, int file, Reply* reply) const;

 private:
  const int socket_;
};

class Processor {
 public:
  // Starts it.
  Processor();
  Processor(const Processor&) = delete;
  Processor& operator=(const Processor&) = delete;

  // A range of addresses that is free in this process and in all processors, with a gap behind it.
  static std::uintptr_t Reserve(std::size_t bytes);
  // Gives the processor these bytes of a file at this address, or takes them away. Fails if it cannot map them.
  void Map(std::uintptr_t address, std::size_t bytes, int file, std::uint64_t offset);
  void Unmap(std::uintptr_t address, std::size_t bytes);
  // Runs a grid; returns when it is done, or false when the processor is gone.
  bool Run(std::uint32_t kernel, const GridShape& shape, std::span<const std::byte> parameter);
  // Its kernels stop where they are.
  void End();

 private:
  std::unique_ptr<Channel> Take();
  void Return(std::unique_ptr<Channel> channel);
  // Null: it is gone.
  std::optional<int> Ask(const Request& request, std::span<const std::byte> parameter = {}, int file = -1);

  int control_ = -1;  // new channels go through it
  std::mutex mutex_;
  std::vector<std::unique_ptr<Channel>> idle_;
};

}  // namespace tutti::fake_gpu
