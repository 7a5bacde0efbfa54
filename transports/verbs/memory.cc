#include "transports/verbs/memory.h"

namespace tutti::verbs {

RailRegions::RailRegions(const Rails& rails, const MemoryRange& range, bool remote) {
  for (const auto& rail : rails) regions_.push_back(rail->Register(range, remote));
}

std::vector<std::uint32_t> RailRegions::remote_keys() const {
  std::vector<std::uint32_t> keys;
  for (const auto& region : regions_) keys.push_back(region->rkey);
  return keys;
}

}  // namespace tutti::verbs
