// Buffers that each rank registers on its own (tuttiCommRegister): the owner publishes them in shared memory; every
// other rank opens them at its next call, and answers; from then on slots may refer to them. No rank waits for another,
// and no plan depends on it: until all have answered, slots carry the data.
//
// Thread-safety: all member functions need the communicator's lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/all_gather.h"
#include "base/file_descriptor.h"
#include "executors/cuda/kernels/device_plan.h"
#include "executors/host/run.h"
#include "transports/cuda/fabric.h"
#include "transports/cuda/memory/lent_memory.h"
#include "transports/shm/descriptors/descriptor_mail.h"

namespace tutti::memory {

class RegisteredBuffers {
 public:
  static constexpr std::size_t kMost = 64;

  // Collective. Entry e of rank r belongs into table[(first + e) * nranks + r], in this rank's GPU memory, where
  // kernels look it up like a window of that number.
  RegisteredBuffers(const cuda_transport::CudaDevice& device, const shm::Fabric& shm, cuda_kernels::DeviceWindow* table,
                    std::uint16_t first, const AllGather& all_gather, Deadline deadline);

  // Null if other processes cannot share the buffer, or too many are registered; it is then used like any other.
  void* Add(void* buffer, std::size_t bytes);
  // False if there is no such buffer. Its memory may be freed when the calls that use it are done: other ranks keep it
  // open until their next call, but no longer read it.
  bool Remove(void* handle);
  // How peers access [pointer, pointer + bytes), if it is registered and all have answered.
  std::optional<host::RemoteAccess> Find(const void* pointer, std::size_t bytes) const;

  // Opens what the others have registered since, and closes what they removed. Leaves what it cannot open unanswered.
  void Answer();

 private:
  struct Entry;
  struct Board;  // in shared memory, one per rank
  struct Opened {
    cuda_transport::OpenedMemory by_handle;
    cuda_transport::BorrowedMemory by_descriptor;
  };
  // The descriptor of a buffer of this rank, and the ranks that have yet to get it.
  struct Given {
    FileDescriptor file;
    std::vector<int> waiting;
  };

  Board& BoardOf(int rank) const;
  // The generation of `owner`'s entry that `rank` has seen.
  std::atomic<std::uint32_t>& Seen(int rank, int owner, std::size_t entry) const;
  // False if its descriptor has yet to come.
  bool Open(int owner, std::size_t entry);
  // Where this rank's GPU reaches it; opens or maps it. Null: its descriptor has yet to come.
  const std::byte* Reach(int owner, std::size_t entry, std::uint32_t generation);
  // Sends descriptors of this rank's buffers to those that have not got them, and takes those that have come.
  void SendFiles();
  void TakeFiles();
  // Writes the buffer's entry in the kernels' table.
  void Write(int owner, std::size_t entry, const cuda_kernels::DeviceWindow& part);
  bool Answered(std::size_t entry, std::uint32_t generation) const;

  const cuda_transport::CudaDevice& device_;
  const shm::Fabric& shm_;
  cuda_kernels::DeviceWindow* table_;
  std::uint16_t first_;
  cuda_transport::SideStream side_;
  std::vector<shm::Segment> boards_;                               // by rank
  std::vector<std::uint32_t> changes_;                             // changes already looked at, by rank
  std::vector<std::vector<Opened>> opened_;                        // by rank and entry
  shm::DescriptorMail mail_;
  std::vector<Given> given_;  // by entry of this rank
  // By rank and entry: what has come.
  std::map<std::pair<int, std::uint32_t>, shm::DescriptorMail::Delivery> taken_;
};

}  // namespace tutti::memory
