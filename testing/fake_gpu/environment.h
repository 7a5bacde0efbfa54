// The machine that the fake GPU imitates, as environment variables describe it. Read once.
#pragma once

#include <cstddef>
#include <vector>

namespace tutti::fake_gpu {

struct Environment {
  int machine_devices;  // TUTTI_FAKE_GPU_DEVICES, 1
  // Of these, the ones that this process has, by ordinal: CUDA_VISIBLE_DEVICES, all. As on a real machine, the list
  // ends before the first word that is no device's number.
  std::vector<int> visible;
  // TUTTI_FAKE_GPU_MIG, 0: the devices are instances of one partitioned GPU. A process has the first visible one alone.
  bool mig;
  int multiprocessors;  // TUTTI_FAKE_GPU_SMS, 64, or 16 of an instance: of each device
  bool peers;           // TUTTI_FAKE_GPU_PEERS, 1: devices reach each other's memory; instances do not
  bool nvlink;          // TUTTI_FAKE_GPU_NVLINK, 1: and do so by NVLink, not PCIe
  bool multicast;  // TUTTI_FAKE_GPU_MULTICAST, 0: a switch between them adds and multiplies data; not for instances
  std::size_t multicast_least;  // TUTTI_FAKE_GPU_MULTICAST_LEAST_MB, 2: sizes of such objects are multiples of it
  std::size_t multicast_best;   // TUTTI_FAKE_GPU_MULTICAST_BEST_MB, as above: of it, if the caller takes advice
  int multicast_objects;        // TUTTI_FAKE_GPU_MULTICAST_OBJECTS, 1024: that a process may make
  std::size_t multicast_bytes;  // TUTTI_FAKE_GPU_MULTICAST_MB, 65536: that a process may bind of a device
  // TUTTI_FAKE_GPU_DMA_BUF, 1: whether NICs may have its memory. 2: the driver says so, but refuses.
  enum class DmaBuf { none, given, refused };
  DmaBuf dma_buf;
  bool rdma_order;              // TUTTI_FAKE_GPU_RDMA_ORDER, 1: kernels see what NICs have written without more ado
  int driver_version;           // TUTTI_FAKE_GPU_DRIVER, 13000
  int capability;     // TUTTI_FAKE_GPU_CAPABILITY, 90: compute capability, ten times the major number and the minor one
  int block_threads;  // TUTTI_FAKE_GPU_THREADS, 1: at most this many threads run a block
  // TUTTI_FAKE_GPU_SYNC, 0: enqueued work is done when the call returns. For programs that use a library unaware of the
  // driver: that library's work, done in the caller, is then in order with the streams', and the memory that it hands
  // out may be filled as if it were a device's.
  bool synchronous;

  // Stricter than by default.
  bool apart;              // TUTTI_FAKE_GPU_APART, 0: kernels run in a process of their own (processor/processor.h)
  int late_us;             // TUTTI_FAKE_GPU_LATE_US, 0: work begins up to this much later than it could
  bool allocations_wait;   // TUTTI_FAKE_GPU_ALLOCATIONS_WAIT, 0: what maps memory waits for all kernels of the process
  int queues;              // TUTTI_FAKE_GPU_QUEUES, 0: hardware queues of each device; 0: one for each stream
  int queue_depth;         // TUTTI_FAKE_GPU_QUEUE_DEPTH, 0: most work that a stream holds; 0: any
  bool cooperative_alone;  // TUTTI_FAKE_GPU_COOPERATIVE_ALONE, 0: a device runs one cooperative grid at a time
  bool busy;               // TUTTI_FAKE_GPU_BUSY, 0: another process has the devices to itself
  int context_ms;          // TUTTI_FAKE_GPU_CONTEXT_MS, 0: how long it takes to make a context
  std::size_t memory_bytes;  // TUTTI_FAKE_GPU_MEMORY_MB, 65536: of each device
  std::size_t pinned_bytes;  // TUTTI_FAKE_GPU_PINNED_MB, 65536: that a process may pin
  int imports;               // TUTTI_FAKE_GPU_IMPORTS, 4096: pieces of other processes' memory that one may open

  int devices() const { return static_cast<int>(visible.size()); }
};

const Environment& TheEnvironment();

}  // namespace tutti::fake_gpu
