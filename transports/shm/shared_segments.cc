#include "transports/shm/shared_segments.h"

#include "base/all_gather.h"
#include "base/file_descriptor.h"
#include "transports/shm/process_register.h"

namespace tutti::shm {

std::vector<Segment> ShareSegments(const Fabric& shm, const std::string& name, std::size_t bytes,
                                   const AllGather& all_gather, Deadline deadline) {
  auto own = Segment::Create(name, bytes);
  auto segments = ShareSegments(shm, own.fd(), own.mapping(), all_gather, deadline);
  for (const int r : shm.local()) {
    const auto theirs = segments[static_cast<std::size_t>(r)].bytes();
    if (theirs != bytes) Throw(tuttiInternalError, "rank {} shares {} bytes, but {} were agreed", r, theirs, bytes);
  }
  segments[static_cast<std::size_t>(shm.rank())] = std::move(own);
  segments[static_cast<std::size_t>(shm.rank())].DropDescriptor();
  return segments;
}

std::vector<Segment> ShareSegments(const Fabric& shm, const FileDescriptor& fd, std::shared_ptr<Mapping> mapping,
                                   const AllGather& all_gather, Deadline deadline) {
  struct Introduction {
    RegisterKey key;
    std::uint64_t bytes;
  };
  const auto own_bytes = mapping->bytes();
  const Offer offer(shm.rank(), mapping);
  const auto all = GatherValues(all_gather, Introduction{offer.key(), own_bytes});
  std::vector<Segment> segments(all.size());
  segments[static_cast<std::size_t>(shm.rank())] = Segment(std::move(mapping));
  for (const int r : shm.local()) {
    if (r == shm.rank() || !shm.same_process(r)) continue;
    const auto& theirs = all[static_cast<std::size_t>(r)];
    auto found = FindOffer<Mapping>(theirs.key, r);
    if (found == nullptr || found->bytes() != theirs.bytes) {
      all_gather({});  // the control plane names the rank that left first
      Throw(tuttiRemoteError, "rank {} of this process left while memory was shared", r);
    }
    segments[static_cast<std::size_t>(r)] = Segment(std::move(found));
  }
  const int mine = fd.get();
  ExchangeDescriptors(shm.locality(), std::span(&mine, 1), all_gather, deadline,
                      [&](int r, std::vector<FileDescriptor> fds) {
                        const auto at = static_cast<std::size_t>(r);
                        segments[at] = Segment::Map(fds.at(0), all[at].bytes);
                      });
  all_gather({});  // no rank's memory goes before every rank has it
  return segments;
}

}  // namespace tutti::shm
