// Kernels in a process of their own, the processor (TUTTI_FAKE_GPU_APART). It has the memory that the driver knows, at
// the same addresses, and nothing else of this process, so a kernel that uses ordinary host memory faults there. In
// this process, device memory is only an address: host code that touches it faults here. Both faults print a stack.
//
// Thread-safety: all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
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
  // Starts it at the first call. Its end is the end of the context: from then on the driver refuses every call.
  static Processor& Instance();

  // A range of addresses that is free in both processes, with a gap behind it.
  static std::uintptr_t Reserve(std::size_t bytes);
  // Gives the processor these bytes of a file at this address, or takes them away. Fails if it cannot map them.
  void Map(std::uintptr_t address, std::size_t bytes, int file, std::uint64_t offset);
  void Unmap(std::uintptr_t address, std::size_t bytes);
  // Gives it memory of the caller, which must be of a shared file, as memory between processes is; of other memory a
  // kernel then sees nothing.
  void MapOwn(std::uintptr_t address, std::size_t bytes);
  // Runs a grid; returns when it is done, or when the processor is gone.
  void Run(std::uint32_t kernel, const GridShape& shape, std::span<const std::byte> parameter);

 private:
  Processor();
  std::unique_ptr<Channel> Take();
  void Return(std::unique_ptr<Channel> channel);
  int Ask(const Request& request, std::span<const std::byte> parameter = {}, int file = -1);

  int control_ = -1;  // new channels go through it
  std::mutex mutex_;
  std::vector<std::unique_ptr<Channel>> idle_;
};

}  // namespace tutti::fake_gpu
