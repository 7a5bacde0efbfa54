#include "src/memory/registered_buffers.h"

#include <array>
#include <atomic>

#include "base/all_gather.h"
#include "base/error.h"
#include "base/log.h"
#include "transports/shm/shared_segments.h"

namespace tutti::memory {

// Written by its owner, `generation` last. Odd: holds a buffer. Even: holds none, or no longer.
struct RegisteredBuffers::Entry {
  std::atomic<std::uint32_t> generation;
  cuda_transport::CuIpcHandle handle;  // of the allocation, unless
  std::atomic<std::uint64_t> piece;    // it has this length, and others get it by a descriptor
  std::atomic<std::int32_t> device;    // as its process counts
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
                                     const AllGather& all_gather, Deadline deadline)
    : device_(device),
      shm_(shm),
      table_(table),
      first_(first),
      side_(device.driver(), device.context()),
      boards_(shm::ShareSegments(shm, "tutti-registered",
                                 sizeof(Board) + static_cast<std::size_t>(shm.nranks()) * kMost * sizeof(std::uint32_t),
                                 all_gather, deadline)),
      changes_(boards_.size()),
      opened_(boards_.size()),
      mail_(shm.locality(), all_gather, deadline),
      given_(kMost) {
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
  const auto& driver = device_.driver();
  const auto pieces = cuda_transport::PiecesUnder(driver, device_.context(), buffer, bytes);
  std::optional<cuda_transport::ShareableBuffer> shareable;
  if (pieces.all.empty()) {
    shareable = cuda_transport::ShareableBufferOf(device_, buffer, bytes);
  } else if (pieces.all.size() == 1 && pieces.fault == cuda_transport::Pieces::Fault::none) {
    shareable = cuda_transport::ShareableBuffer{{}, pieces.offset};
  }
  if (!shareable) return nullptr;
  auto& board = BoardOf(shm_.rank());
  for (std::size_t e = 0; e < kMost; ++e) {
    auto& entry = board.entries[e];
    const auto generation = entry.generation.load(std::memory_order_relaxed);
    if (generation % 2 != 0) continue;
    if (!pieces.all.empty()) {
      const cuda_transport::CurrentDevice current(driver, device_.context());
      const auto memory = cuda_transport::PhysicalMemory::At(driver, buffer);
      if (!memory) return nullptr;
      given_[e].file = memory->Export();
      for (const int r : shm_.local()) {
        if (!shm_.same_process(r)) given_[e].waiting.push_back(r);
      }
    }
    entry.handle = shareable->handle;
    entry.piece.store(pieces.all.empty() ? 0 : pieces.all.front().bytes, std::memory_order_relaxed);
    entry.device.store(device_.ordinal(), std::memory_order_relaxed);
    entry.offset.store(shareable->offset, std::memory_order_relaxed);
    entry.address.store(reinterpret_cast<std::uint64_t>(buffer), std::memory_order_relaxed);
    entry.bytes.store(bytes, std::memory_order_relaxed);
    entry.generation.store(generation + 1, std::memory_order_release);
    board.changes.fetch_add(1, std::memory_order_release);
    SendFiles();
    return buffer;
  }
  return nullptr;
}

void RegisteredBuffers::SendFiles() {
  const auto& board = BoardOf(shm_.rank());
  for (std::size_t e = 0; e < kMost; ++e) {
    const auto& entry = board.entries[e];
    auto& given = given_[e];
    if (given.waiting.empty()) continue;
    const shm::DescriptorMail::Letter letter{shm_.rank(), static_cast<std::uint32_t>(e),
                                             entry.generation.load(std::memory_order_relaxed),
                                             entry.piece.load(std::memory_order_relaxed)};
    std::erase_if(given.waiting, [&](int r) { return mail_.Send(r, letter, given.file); });
  }
}

void RegisteredBuffers::TakeFiles() {
  while (auto delivery = mail_.Receive()) {
    const std::pair place{static_cast<int>(delivery->letter.from), delivery->letter.subject};
    taken_.insert_or_assign(place, std::move(*delivery));
  }
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
    given_[e] = {};
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
  SendFiles();
  bool asked = false;
  for (const int r : shm_.local()) {
    auto& seen = changes_[static_cast<std::size_t>(r)];
    const auto changes = BoardOf(r).changes.load(std::memory_order_acquire);
    if (r == shm_.rank() || changes == seen) continue;
    if (!std::exchange(asked, true)) TakeFiles();
    bool all = true;
    for (std::size_t e = 0; e < kMost; ++e) all = Open(r, e) && all;
    if (all) seen = changes;
  }
}

void RegisteredBuffers::Write(int owner, std::size_t entry, const cuda_kernels::DeviceWindow& part) {
  const auto row = (first_ + entry) * static_cast<std::size_t>(shm_.nranks());
  side_.Copy(table_ + row + static_cast<std::size_t>(owner), &part, sizeof part);
}

const std::byte* RegisteredBuffers::Reach(int owner, std::size_t e, std::uint32_t generation) {
  const auto& driver = device_.driver();
  const Entry& entry = BoardOf(owner).entries[e];
  auto& opened = opened_[static_cast<std::size_t>(owner)][e];
  const auto address = entry.address.load(std::memory_order_relaxed);
  const auto offset = entry.offset.load(std::memory_order_relaxed);
  const auto bytes = entry.bytes.load(std::memory_order_relaxed);
  const auto piece = entry.piece.load(std::memory_order_relaxed);
  const auto* const theirs = reinterpret_cast<const std::byte*>(address);
  if (shm_.same_process(owner)) {
    if (piece == 0 || entry.device.load(std::memory_order_relaxed) == device_.ordinal()) return theirs;
    const auto memory = cuda_transport::PhysicalMemory::At(driver, theirs);
    if (!memory) Throw(tuttiInvalidArgument, "it is not mapped any more");
    opened.by_descriptor.Map(device_, *memory, piece);
    return opened.by_descriptor.data() + offset;
  }
  if (piece == 0) {
    opened.by_handle = cuda_transport::OpenedMemory(device_, entry.handle);
    return opened.by_handle.Part(offset, bytes);
  }
  const auto taken = taken_.find({owner, static_cast<std::uint32_t>(e)});
  if (taken == taken_.end() || taken->second.letter.number != generation) return nullptr;
  const auto delivery = std::move(taken->second);
  taken_.erase(taken);
  if (offset > piece || bytes > piece - offset) {
    Throw(tuttiInternalError, "a peer offered {} bytes from byte {} of a piece that has {} bytes", bytes, offset,
          piece);
  }
  opened.by_descriptor.Map(device_, cuda_transport::PhysicalMemory::Import(driver, delivery.file), piece);
  return opened.by_descriptor.data() + offset;
}

bool RegisteredBuffers::Open(int owner, std::size_t e) {
  const Entry& entry = BoardOf(owner).entries[e];
  auto& seen = Seen(shm_.rank(), owner, e);
  const auto generation = entry.generation.load(std::memory_order_acquire);
  if (generation == seen.load(std::memory_order_relaxed)) return true;
  Write(owner, e, {});
  opened_[static_cast<std::size_t>(owner)][e] = Opened();
  if (generation % 2 == 0) taken_.erase({owner, static_cast<std::uint32_t>(e)});
  if (generation % 2 != 0) {
    const auto bytes = entry.bytes.load(std::memory_order_relaxed);
    try {
      const auto* const place = Reach(owner, e, generation);
      if (place == nullptr) return false;
      Write(owner, e, {place, bytes});
    } catch (const Error& error) {
      Log(Subject::transport, "rank {} cannot open memory that rank {} has registered: {}", shm_.rank(), owner,
          error.what());
      return true;
    }
    Log(Subject::transport, "rank {} can access {} registered bytes of rank {}", shm_.rank(), bytes, owner);
  }
  seen.store(generation, std::memory_order_release);
  return true;
}

}  // namespace tutti::memory
