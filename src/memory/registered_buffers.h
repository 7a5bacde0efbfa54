// Buffers that ranks have registered each for itself (tuttiCommRegister): their owner says in shared memory what they
// are, every other rank opens them at its next call, and says so; from then on slots may refer to them. Nobody waits
// for anybody, and a plan does not depend on it: until all have answered, slots carry the data.
//
// Thread-safety: all member functions need the communicator's lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "executors/cuda/kernels/device_plan.h"
#include "executors/host/run.h"
#include "transports/cuda/fabric.h"

namespace tutti {

class RegisteredBuffers {
 public:
  static constexpr std::size_t kMost = 64;

  // Collective. Entry e of rank r belongs into table[(first + e) * nranks + r], in this rank's GPU's memory, where
  // kernels look for it as for a window of that number.
  RegisteredBuffers(const CudaDevice& device, const Fabric& shm, DeviceWindow* table, std::uint16_t first,
                    const AllGather& all_gather, Deadline deadline);

  // Null if the buffer cannot be given to other processes, or too many are registered: it is used as any other then.
  void* Add(void* buffer, std::size_t bytes);
  // False if there is no such buffer. Its memory may be freed when the calls that use it are done: others keep it open
  // until their next call, but no longer look at it.
  bool Remove(void* handle);
  // How peers reach [pointer, pointer + bytes), if it is registered and all have answered.
  std::optional<Reach> Find(const void* pointer, std::size_t bytes) const;

  // Looks at what the others have registered since, opens and closes it. What cannot be opened stays unanswered.
  void Answer();

 private:
  struct Entry;
  struct Board;  // in shared memory, one a rank

  Board& BoardOf(int rank) const;
  // What `rank` has seen of `owner`'s entry: its generation.
  std::atomic<std::uint32_t>& Seen(int rank, int owner, std::size_t entry) const;
  void Open(int owner, std::size_t entry);
  // Writes the kernels' entry for it.
  void Write(int owner, std::size_t entry, const DeviceWindow& part);
  bool Answered(std::size_t entry, std::uint32_t generation) const;

  const CudaDevice& device_;
  const Fabric& shm_;
  DeviceWindow* table_;
  std::uint16_t first_;
  SideStream side_;
  std::vector<Segment> boards_;                    // by rank
  std::vector<std::uint32_t> changes_;             // that were looked at, by rank
  std::vector<std::vector<OpenedMemory>> opened_;  // by rank and entry
};

}  // namespace tutti
