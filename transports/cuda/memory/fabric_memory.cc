// The memory of a fabric, given to other processes, given back and taken again.
#include <sys/mman.h>

#include <cstring>

#include "base/all_gather.h"
#include "base/file_descriptor.h"
#include "base/log.h"
#include "transports/cuda/fabric.h"
#include "transports/cuda/phase.h"
#include "transports/shm/descriptors/descriptor_exchange.h"

namespace tutti::cuda_transport {
namespace {

// What must survive while the memory is gone: all but the data of bulk slots, which every reader has taken by the time
// that no kernel runs.
struct KeptParts {
  explicit KeptParts(const DeviceLayout& layout)
      : first(layout.zeroed_bytes()),
        last_at(layout.may_hold_lines_at()),
        last(layout.bytes() - layout.may_hold_lines_at()) {}

  std::size_t first, last_at, last;
};

}  // namespace

std::size_t DeviceFabric::other_bytes() const {
  const std::size_t lent = memory_->can_give_back() ? 0 : memory_->bytes();
  const std::size_t across = across_ ? across_->device_bytes() : 0;
  return lent + ends_.bytes() + across + (team_ != nullptr ? team_->bytes() : 0);
}

std::string DeviceFabric::MapBorrowed(const AllGather& all_gather, Deadline deadline) {
  std::string failure;
  // Every rank must give a descriptor; that of memory that is given by a handle means nothing.
  const FileDescriptor mine =
      memory_->can_give_back() ? memory_->Export() : FileDescriptor(memfd_create("tutti-none", MFD_CLOEXEC));
  const int number = mine.get();
  shm::ExchangeDescriptors(shm_.locality(), std::span(&number, 1), all_gather, deadline,
                           [&](int r, const std::vector<FileDescriptor>& theirs) {
                             auto& peer = peers_[static_cast<std::size_t>(r)];
                             if (peer.by_descriptor == 0) return;
                             try {
                               const auto memory = PhysicalMemory::Import(device_.driver(), theirs.at(0));
                               peer.borrowed.Map(device_, memory, peer.by_descriptor);
                             } catch (const Error& error) {
                               failure = fmt::format("the device of rank {} cannot be reached: {}", r, error.what());
                               Log(Subject::init, "rank {}: {}", rank_, failure);
                             }
                           });
  return failure;
}

std::string DeviceFabric::GiveBack(const AllGather& all_gather) {
  const bool gives = memory_->can_give_back();
  const KeptParts parts(layout_);
  std::string why = InPhase(all_gather, [&] {
    if (!gives) return;
    kept_.resize(parts.first + parts.last);
    SideStream side(device_.driver(), device_.context());
    side.Copy(kept_.data(), memory_->data(), parts.first);
    if (parts.last > 0) side.Copy(kept_.data() + parts.first, memory_->data() + parts.last_at, parts.last);
  });
  if (!why.empty()) {
    kept_ = {};
    return why;
  }
  for (auto& peer : peers_) peer.borrowed.Unmap();
  if (gives) memory_->GiveBack();
  all_gather({});  // memory is free when its last mapping is gone
  return why;
}

std::string DeviceFabric::TakeAgain(const AllGather& all_gather, Deadline deadline) {
  const bool takes = memory_->can_give_back();
  const auto give_up = [&](std::string why) {
    for (auto& peer : peers_) peer.borrowed.Unmap();
    if (takes) memory_->GiveBack();
    all_gather({});
    return why;
  };
  const KeptParts parts(layout_);
  std::string why = InPhase(all_gather, [&] {
    if (!takes) return;
    memory_->Take();
    SideStream side(device_.driver(), device_.context());
    side.Copy(memory_->data(), kept_.data(), parts.first);
    if (parts.last > 0) side.Copy(memory_->data() + parts.last_at, kept_.data() + parts.first, parts.last);
  });
  if (!why.empty()) return give_up(std::move(why));
  const auto failure = MapBorrowed(all_gather, deadline);
  why = InPhase(all_gather, [&] {
    if (!failure.empty()) Throw(tuttiUnhandledCudaError, "{}", failure);
  });
  if (!why.empty()) return give_up(std::move(why));
  kept_ = {};
  return why;
}

}  // namespace tutti::cuda_transport
