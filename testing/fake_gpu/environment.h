// The machine that the fake GPU imitates, as environment variables describe it. Read once.
#pragma once

#include <cstddef>

namespace tutti::fake_gpu {

struct Environment {
  int devices;          // TUTTI_FAKE_GPU_DEVICES, 1
  int multiprocessors;  // TUTTI_FAKE_GPU_SMS, 64: of each device
  bool peers;           // TUTTI_FAKE_GPU_PEERS, 1: devices reach each other's memory
  bool nvlink;          // TUTTI_FAKE_GPU_NVLINK, 1: and do so by NVLink, not PCIe
  bool multicast;       // TUTTI_FAKE_GPU_MULTICAST, 0: a switch between the devices adds and multiplies data
  int driver_version;   // TUTTI_FAKE_GPU_DRIVER, 13000
  int capability;     // TUTTI_FAKE_GPU_CAPABILITY, 90: compute capability, ten times the major number and the minor one
  int block_threads;  // TUTTI_FAKE_GPU_THREADS, 1: at most this many threads run a block
  // TUTTI_FAKE_GPU_SYNC, 0: enqueued work is done when the call returns. For programs that use a library unaware of the
  // driver: that library's work, done in the caller, is then in order with the streams', and the memory that it hands
  // out may be filled as if it were a device's.
  bool synchronous;

  // Stricter than by default.
  bool apart;             // TUTTI_FAKE_GPU_APART, 0: kernels run in a process of their own (processor/processor.h)
  int late_us;            // TUTTI_FAKE_GPU_LATE_US, 0: work begins up to this much later than it could
  bool allocations_wait;  // TUTTI_FAKE_GPU_ALLOCATIONS_WAIT, 0: what maps memory waits for all kernels of the process
  bool busy;              // TUTTI_FAKE_GPU_BUSY, 0: another process has the devices to itself
  int context_ms;         // TUTTI_FAKE_GPU_CONTEXT_MS, 0: how long it takes to make a context
  std::size_t memory_bytes;  // TUTTI_FAKE_GPU_MEMORY_MB, 65536: of each device
  std::size_t pinned_bytes;  // TUTTI_FAKE_GPU_PINNED_MB, 65536: that a process may pin
  int imports;               // TUTTI_FAKE_GPU_IMPORTS, 4096: pieces of other processes' memory that one may open
};

const Environment& TheEnvironment();

}  // namespace tutti::fake_gpu
