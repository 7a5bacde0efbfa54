#include "src/memory/registered_buffers.h"

#include <array>
#include <atomic>

#include "base/error.h"
#include "base/log.h"
#include "transports/shm/shared_segments.h"

namespace tutti::memory {

// Written by its owner, `generation` last. Odd: holds a buffer. Even: holds none, or no longer.
struct RegisteredBuffers::Entry {
  std::atomic<std::uint32_t> generation;
  cuda_transport::CuIpcHandle handle;  // of the allocation
  std::atomic<std::uint64_t> offset;   // of the buffer in it
  std::atomic<std::uint64_t> address;
  std::atomic<std::uint64_t> bytes;
};

struct RegisteredBuffers::Board {
  std::atomic<std::uint32_t> changes;  // of the entries
  std::array<Entry, kMost> entries;
  // Followed in memory by the generations that the rank has seen of every rank's entries.
};

RegisteredBuffers::RegisteredBuffers(const cuda_transport::CudaDevice& device, const shm::Fabric& shm,
                                     cuda_kernels::DeviceWindow* table, std::uint16_t first,
                                     const shm::AllGather& all_gather, Deadline deadline)
    : device_(device),
      shm_(shm),
      table_(table),
      first_(first),
      side_(device.driver(), device.context()),
      boards_(shm::ShareSegments(shm, "tutti-registered",
                                 sizeof(Board) + static_cast<std::size_t>(shm.nranks()) * kMost * sizeof(std::uint32_t),
                                 all_gather, deadline)),
      changes_(boards_.size()),
      opened_(boards_.size()) {
  for (auto& each : opened_) each.resize(kMost);
}

RegisteredBuffers::Board& RegisteredBuffers::BoardOf(int rank) const {
  return *reinterpret_cast<Board*>(boards_[static_cast<std::size_t>(rank)].data());
}

std::atomic<std::uint32_t>& RegisteredBuffers::Seen(int rank, int owner, std::size_t entry) const {
  auto* const seen =
      reinterpret_cast<std::atomic<std::uint32_t>*>(boards_[static_cast<std::size_t>(rank)].data() + sizeof(Board));
  return seen[static_cast<std::size_t>(owner) * kMost + entry];
}

void* RegisteredBuffers::Add(void* buffer, std::size_t bytes) {
  const auto shareable = cuda_transport::ShareableBufferOf(device_, buffer, bytes);
  if (!shareable) return nullptr;
  for (auto& entry : BoardOf(shm_.rank()).entries) {
    const auto generation = entry.generation.load(std::memory_order_relaxed);
    if (generation % 2 != 0) continue;
    entry.handle = shareable->handle;
    entry.offset.store(shareable->offset, std::memory_order_relaxed);
    entry.address.store(reinterpret_cast<std::uint64_t>(buffer), std::memory_order_relaxed);
    entry.bytes.store(bytes, std::memory_order_relaxed);
    entry.generation.store(generation + 1, std::memory_order_release);
    BoardOf(shm_.rank()).changes.fetch_add(1, std::memory_order_release);
    return buffer;
  }
  return nullptr;
}

bool RegisteredBuffers::Answered(std::size_t entry, std::uint32_t generation) const {
  for (const int r : shm_.local()) {
    if (r == shm_.rank()) continue;
    if (Seen(r, shm_.rank(), entry).load(std::memory_order_acquire) != generation) return false;
  }
  return true;
}

bool RegisteredBuffers::Remove(void* handle) {
  auto& entries = BoardOf(shm_.rank()).entries;
  for (std::size_t e = 0; e < kMost; ++e) {
    const auto generation = entries[e].generation.load(std::memory_order_relaxed);
    const auto address = entries[e].address.load(std::memory_order_relaxed);
    if (generation % 2 == 0 || address != reinterpret_cast<std::uint64_t>(handle)) continue;
    entries[e].generation.store(generation + 1, std::memory_order_release);
    BoardOf(shm_.rank()).changes.fetch_add(1, std::memory_order_release);
    return true;
  }
  return false;
}

std::optional<host::RemoteAccess> RegisteredBuffers::Find(const void* pointer, std::size_t bytes) const {
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  const auto& entries = BoardOf(shm_.rank()).entries;
  for (std::size_t e = 0; e < kMost; ++e) {
    const auto& entry = entries[e];
    const auto generation = entry.generation.load(std::memory_order_relaxed);
    const auto begin = entry.address.load(std::memory_order_relaxed);
    const auto length = entry.bytes.load(std::memory_order_relaxed);
    if (generation % 2 == 0 || address < begin) continue;
    const auto offset = address - begin;
    if (offset > length || bytes > length - offset || !Answered(e, generation)) continue;
    return host::RemoteAccess{ring::SlotKind::window, static_cast<std::uint16_t>(first_ + e), offset};
  }
  return std::nullopt;
}

void RegisteredBuffers::Answer() {
  for (const int r : shm_.local()) {
    auto& seen = changes_[static_cast<std::size_t>(r)];
    const auto changes = BoardOf(r).changes.load(std::memory_order_acquire);
    if (r == shm_.rank() || changes == seen) continue;
    seen = changes;
    for (std::size_t e = 0; e < kMost; ++e) Open(r, e);
  }
}

void RegisteredBuffers::Write(int owner, std::size_t entry, const cuda_kernels::DeviceWindow& part) {
  const auto row = (first_ + entry) * static_cast<std::size_t>(shm_.nranks());
  side_.Copy(table_ + row + static_cast<std::size_t>(owner), &part, sizeof part);
}

void RegisteredBuffers::Open(int owner, std::size_t e) {
  const Entry& entry = BoardOf(owner).entries[e];
  auto& seen = Seen(shm_.rank(), owner, e);
  const auto generation = entry.generation.load(std::memory_order_acquire);
  if (generation == seen.load(std::memory_order_relaxed)) return;
  const auto rank = static_cast<std::size_t>(owner);
  auto& opened = opened_[rank][e];
  Write(owner, e, {});
  opened = cuda_transport::OpenedMemory();
  if (generation % 2 != 0) {
    const auto bytes = entry.bytes.load(std::memory_order_relaxed);
    cuda_kernels::DeviceWindow part{reinterpret_cast<const std::byte*>(entry.address.load(std::memory_order_relaxed)),
                                    bytes};
    try {
      if (!shm_.same_process(owner)) {
        opened = cuda_transport::OpenedMemory(device_, entry.handle);
        part.begin = opened.Part(entry.offset.load(std::memory_order_relaxed), bytes);
      }
    } catch (const Error& error) {
      Log(Subject::transport, "rank {} cannot open memory that rank {} has registered: {}", shm_.rank(), owner,
          error.what());
      return;
    }
    Write(owner, e, part);
    Log(Subject::transport, "rank {} can access {} registered bytes of rank {}", shm_.rank(), bytes, owner);
  }
  seen.store(generation, std::memory_order_release);
}

}  // namespace tutti::memory
