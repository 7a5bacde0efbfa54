#include "transports/shared_segments.h"

#include <numeric>

#include "transports/gather_values.h"

namespace tutti {

std::vector<Segment> ShareSegments(const ShmFabric& shm, const std::string& name, std::size_t bytes,
                                   const AllGather& all_gather, Deadline deadline) {
  std::vector<Segment> segments(static_cast<std::size_t>(shm.nranks()));
  auto& own = segments[static_cast<std::size_t>(shm.rank())];
  own = Segment::Create(name, bytes);
  const auto addresses = GatherValues(all_gather, reinterpret_cast<std::uint64_t>(own.data()));
  std::vector<int> everyone(segments.size());
  std::iota(everyone.begin(), everyone.end(), 0);
  const int fd = own.fd().get();
  auto descriptors = ExchangeDescriptors(shm.rank(), everyone, std::span(&fd, 1), all_gather, deadline);
  for (int r = 0; r < shm.nranks(); ++r) {
    const auto i = static_cast<std::size_t>(r);
    if (r == shm.rank()) continue;
    segments[i] = shm.same_process(r) ? Segment::Share(reinterpret_cast<std::byte*>(addresses[i]), bytes)
                                      : Segment::Map(descriptors[i].at(0), bytes);
  }
  all_gather({});  // nobody's goes before everybody has it
  return segments;
}

}  // namespace tutti
