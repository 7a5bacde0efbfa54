#include "transports/cuda/piece_exchange.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "base/all_gather.h"
#include "base/file_descriptor.h"
#include "transports/cuda/phase.h"
#include "transports/shm/descriptors/descriptor_exchange.h"

namespace tutti::cuda_transport {
namespace {

// As many as one exchange takes. A program may have thousands, and a process few descriptors.
constexpr std::size_t kAtATime = 4;

std::vector<std::vector<Pieces::Piece>> GatherPieces(const Pieces& mine, const AllGather& all_gather) {
  std::vector<std::vector<Pieces::Piece>> all;
  for (const auto& bytes : all_gather(std::as_bytes(std::span(mine.all)))) {
    if (bytes.size() % sizeof(Pieces::Piece) != 0) {
      Throw(tuttiInternalError, "rank {} sent a malformed list of its memory's pieces", all.size());
    }
    all.emplace_back(bytes.size() / sizeof(Pieces::Piece));
    if (!bytes.empty()) std::memcpy(all.back().data(), bytes.data(), bytes.size());
  }
  return all;
}

// Whether the rank has peers on its host that need descriptors of its memory.
bool Exports(const shm::Locality& locality, int rank) {
  return std::ranges::any_of(locality.hosts.RanksWith(rank),
                             [&](int peer) { return !locality.SameProcess(rank, peer); });
}

// What this rank maps of each rank.
class Mappings {
 public:
  Mappings(const CudaDevice& device, std::vector<std::vector<Pieces::Piece>> pieces, const std::vector<bool>& wanted)
      : device_(device), pieces_(std::move(pieces)), mapped_(pieces_.size()) {
    for (std::size_t r = 0; r < pieces_.size(); ++r) {
      std::size_t room = 0;
      for (const auto& piece : pieces_[r]) room += piece.bytes;
      if (wanted[r] && room > 0) mapped_[r] = MappedMemory(device.driver(), device.context(), room);
    }
  }

  bool Wants(std::size_t rank) const { return mapped_[rank].data() != nullptr; }
  const std::vector<Pieces::Piece>& PiecesOf(std::size_t rank) const { return pieces_[rank]; }
  void Append(std::size_t rank, std::size_t piece, const PhysicalMemory& memory) {
    mapped_[rank].Append(memory, pieces_[rank][piece].bytes, std::span(&ordinal_, 1));
  }
  std::vector<MappedMemory> Take() { return std::move(mapped_); }

 private:
  const CudaDevice& device_;
  const int ordinal_ = device_.ordinal();
  std::vector<std::vector<Pieces::Piece>> pieces_;
  std::vector<MappedMemory> mapped_;
};

// Runs `part` unless a part failed before.
template <typename Part>
void Attempt(std::string& failure, Part&& part) {
  if (!failure.empty()) return;
  try {
    part();
  } catch (const Error& error) {
    failure = error.what();
  }
}

}  // namespace

std::vector<MappedMemory> ExchangePieces(const CudaDevice& device, const shm::Fabric& shm, const Pieces& mine,
                                         const std::vector<bool>& wanted, const AllGather& all_gather,
                                         Deadline deadline, std::string* why) {
  const auto& driver = device.driver();
  auto pieces = GatherPieces(mine, all_gather);
  std::size_t most = 0;
  for (std::size_t r = 0; r < pieces.size(); ++r) {
    if (Exports(shm.locality(), static_cast<int>(r))) most = std::max(most, pieces[r].size());
  }
  const std::size_t own = Exports(shm.locality(), shm.rank()) ? mine.all.size() : 0;
  const CurrentDevice current(driver, device.context());
  // A failure is told at the end: until then the others need this rank.
  std::string failure;
  std::optional<Mappings> mappings;
  Attempt(failure, [&] { mappings.emplace(device, std::move(pieces), wanted); });
  Attempt(failure, [&] {
    for (const int r : shm.local()) {
      const auto rank = static_cast<std::size_t>(r);
      if (!shm.same_process(r) || !mappings->Wants(rank)) continue;
      for (std::size_t p = 0; p < mappings->PiecesOf(rank).size(); ++p) {
        const auto memory = PhysicalMemory::At(driver, reinterpret_cast<void*>(mappings->PiecesOf(rank)[p].address));
        if (!memory) Throw(tuttiInvalidArgument, "memory of rank {} was unmapped meanwhile", r);
        mappings->Append(rank, p, *memory);
      }
    }
  });
  for (std::size_t first = 0; first < most; first += kAtATime) {
    const std::size_t count = std::min(kAtATime, most - first);
    std::vector<FileDescriptor> files;
    Attempt(failure, [&] {
      for (std::size_t p = first; p < std::min(first + count, own); ++p) {
        const auto memory = PhysicalMemory::At(driver, reinterpret_cast<void*>(mine.all[p].address));
        if (!memory) Throw(tuttiInvalidArgument, "the memory was unmapped meanwhile");
        files.push_back(memory->Export());
      }
    });
    // All ranks must give equally many.
    while (files.size() < count) files.emplace_back(memfd_create("tutti-none", MFD_CLOEXEC));
    std::vector<int> numbers;
    for (const auto& file : files) numbers.push_back(file.get());
    shm::ExchangeDescriptors(shm.locality(), numbers, all_gather, deadline,
                             [&](int r, const std::vector<FileDescriptor>& theirs) {
                               const auto rank = static_cast<std::size_t>(r);
                               Attempt(failure, [&] {
                                 if (!mappings->Wants(rank)) return;
                                 const std::size_t end = std::min(first + count, mappings->PiecesOf(rank).size());
                                 for (std::size_t p = first; p < end; ++p) {
                                   mappings->Append(rank, p, PhysicalMemory::Import(driver, theirs.at(p - first)));
                                 }
                               });
                             });
  }
  *why = InPhase(all_gather, [&] {
    if (!failure.empty()) Throw(tuttiUnhandledCudaError, "{}", failure);
  });
  return mappings ? mappings->Take() : std::vector<MappedMemory>{};
}

}  // namespace tutti::cuda_transport
