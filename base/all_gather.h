// How ranks that become a communicator tell each other facts.
//
// Thread-safety: collective functions without state.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <type_traits>
#include <vector>

#include "base/error.h"

namespace tutti {

// Collective over the control plane: every rank's bytes in rank order.
using AllGather = std::function<std::vector<std::vector<std::byte>>(std::span<const std::byte>)>;

// Collective. Values by rank. Throws tuttiInternalError if a rank's has another size, and what all_gather throws.
template <typename T>
std::vector<T> GatherValues(const AllGather& all_gather, const T& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto all = all_gather(std::as_bytes(std::span<const T, 1>(&mine, 1)));
  std::vector<T> values(all.size());
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].size() != sizeof(T))
      Throw(tuttiInternalError, "rank {} sent {} bytes where {} are expected", r, all[r].size(), sizeof(T));
    std::memcpy(&values[r], all[r].data(), sizeof(T));
  }
  return values;
}

}  // namespace tutti
