// User memory that devices may read while it is registered: slots that refer to it are sent in place.
//
// Only explicit registrations are kept. A cache of the memory that slots happened to refer to would have to learn when
// the program unmaps those pages: a device goes on reading the old ones, whatever uses them by then, while the same
// addresses mean new ones. A hook of munmap for that purpose breaks with the next allocator. Data elsewhere is copied
// once instead.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "transports/verbs/port.h"

namespace tutti::verbs {

using Rails = std::vector<std::unique_ptr<VerbsPort>>;

// A range of memory, on every rail.
class RailRegions {
 public:
  RailRegions() = default;
  // Throws tuttiSystemError.
  RailRegions(const Rails& rails, const MemoryRange& range, bool remote);

  explicit operator bool() const { return !regions_.empty(); }
  std::uint32_t local_key(std::size_t rail) const { return regions_[rail]->lkey; }
  std::vector<std::uint32_t> remote_keys() const;

 private:
  std::vector<MemoryRegion> regions_;
};

}  // namespace tutti::verbs
