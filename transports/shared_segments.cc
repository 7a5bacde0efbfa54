#include "transports/shared_segments.h"

#include "transports/gather_values.h"

namespace tutti {

std::vector<Segment> ShareSegments(const Fabric& shm, const std::string& name, std::size_t bytes,
                                   const AllGather& all_gather, Deadline deadline) {
  std::vector<Segment> segments(static_cast<std::size_t>(shm.nranks()));
  auto& own = segments[static_cast<std::size_t>(shm.rank())];
  own = Segment::Create(name, bytes);
  const auto addresses = GatherValues(all_gather, reinterpret_cast<std::uint64_t>(own.data()));
  const int fd = own.fd().get();
  auto descriptors = ExchangeDescriptors(shm.rank(), shm.local(), std::span(&fd, 1), all_gather, deadline);
  for (std::size_t i = 0; i < shm.local().size(); ++i) {
    const int r = shm.local()[i];
    const auto at = static_cast<std::size_t>(r);
    if (r == shm.rank()) continue;
    segments[at] = shm.same_process(r) ? Segment::Share(reinterpret_cast<std::byte*>(addresses[at]), bytes)
                                       : Segment::Map(descriptors[i].at(0), bytes);
  }
  all_gather({});  // nobody's goes before everybody has it
  return segments;
}

}  // namespace tutti
