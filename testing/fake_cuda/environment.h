// The machine that the stand-in imitates, as environment variables describe it. Read once.
#pragma once

#include <cstddef>

namespace tutti::standin {

struct Environment {
  int devices;          // TUTTI_STANDIN_DEVICES, 1
  int multiprocessors;  // TUTTI_STANDIN_SMS, 64: of each device
  bool peers;           // TUTTI_STANDIN_PEERS, 1: devices reach each other's memory
  bool nvlink;          // TUTTI_STANDIN_NVLINK, 1: and do so by NVLink, not PCIe
  bool multicast;       // TUTTI_STANDIN_MULTICAST, 0: a switch between the devices adds and multiplies data
  int driver_version;   // TUTTI_STANDIN_DRIVER, 13000
  int capability;     // TUTTI_STANDIN_CAPABILITY, 90: compute capability, ten times the major number and the minor one
  int block_threads;  // TUTTI_STANDIN_THREADS, 1: at most this many threads run a block
  // TUTTI_STANDIN_SYNC, 0: enqueued work is done when the call returns. For programs that use a library unaware of the
  // driver: that library's work, done in the caller, is then in order with the streams', and the memory that it hands
  // out may be filled as if it were a device's.
  bool synchronous;

  // Stricter than by default.
  bool apart;                // TUTTI_STANDIN_APART, 0: kernels run in a process of their own (processor/processor.h)
  int late_us;               // TUTTI_STANDIN_LATE_US, 0: work begins up to this much later than it could
  bool allocations_wait;     // TUTTI_STANDIN_ALLOCATIONS_WAIT, 0: what maps memory waits for all kernels of the process
  bool busy;                 // TUTTI_STANDIN_BUSY, 0: another process has the devices to itself
  int context_ms;            // TUTTI_STANDIN_CONTEXT_MS, 0: how long it takes to make a context
  std::size_t memory_bytes;  // TUTTI_STANDIN_MEMORY_MB, 65536: of each device
  std::size_t pinned_bytes;  // TUTTI_STANDIN_PINNED_MB, 65536: that a process may pin
  int imports;               // TUTTI_STANDIN_IMPORTS, 4096: pieces of other processes' memory that one may open
};

const Environment& TheEnvironment();

}  // namespace tutti::standin
