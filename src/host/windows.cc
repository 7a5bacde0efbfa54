#include "src/host/windows.h"

#include "base/error.h"
#include "src/memory/memory.h"
#include "transports/shm/shared_segments.h"

namespace tutti::host_side {
namespace {

struct Offer {
  std::uint64_t offset;  // in the allocation
  std::uint64_t bytes;   // of the window
  bool valid;
  memory::WindowNumbers::Taken taken;
};

}  // namespace

tuttiWindow* HostWindows::Register(void* buffer, std::size_t bytes, const AllGather& all_gather, Deadline deadline) {
  CloseRetired();
  const auto found = memory::FindAllocation(buffer, bytes);
  Offer offer{0, 0, false, numbers().taken()};
  if (found) offer = {found->offset, bytes, true, offer.taken};
  const auto offers = GatherValues(all_gather, offer);
  std::vector<int> without;
  for (std::size_t r = 0; r < offers.size(); ++r) {
    if (!offers[r].valid) without.push_back(static_cast<int>(r));
  }
  if (!without.empty()) {
    Throw(tuttiInvalidArgument, "buff is not inside one tuttiMemAlloc allocation on rank{} {}",
          without.size() > 1 ? "s" : "", fmt::join(without, ", "));
  }
  const std::uint16_t number = FreeNumber(offers, ring::kMostWindows);
  // Before the last exchange, so that no rank finds the number gone that has not been taken yet.
  numbers().Take(number);
  auto segments = std::make_shared<const std::vector<shm::Segment>>(
      shm::ShareSegments(fabric_, found->fd, found->mapping, all_gather, deadline));
  Parts parts(offers.size());
  for (const int r : fabric_.local()) {
    const auto at = static_cast<std::size_t>(r);
    const auto& segment = (*segments)[at];
    if (offers[at].offset > segment.bytes() || offers[at].bytes > segment.bytes() - offers[at].offset) {
      Throw(tuttiInternalError, "rank {} offered a window that lies outside its allocation", r);
    }
    parts[at] = {segment.data() + offers[at].offset, offers[at].bytes};
  }
  return Keep(number, buffer, bytes, std::move(parts), std::move(segments));
}

const std::byte* HostWindows::Find(int rank, std::uint16_t number, std::uint64_t offset, std::size_t bytes) const {
  const auto part = PartOf(number, rank);
  if (part.data() == nullptr || offset > part.size() || bytes > part.size() - offset) return nullptr;
  return part.data() + offset;
}

}  // namespace tutti::host_side
