// The addresses at which ranks can be called.
//
// Thread-safety: a collective function without state.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "net/interfaces.h"
#include "transports/shm/gather_values.h"

namespace tutti {

// Collective: the addresses of each rank's listeners, by rank; beyond two of each family they are left out.
inline std::vector<std::vector<SocketAddress>> GatherAddresses(const AllGather& all_gather,
                                                               const std::vector<Socket>& listeners) {
  constexpr std::size_t kMost = 2 * kMaxAddressesPerFamily;
  struct Listening {
    std::uint32_t count = 0;
    std::array<SocketAddress, kMost> at = {};
  };
  Listening mine;
  for (const auto& listener : listeners) {
    if (mine.count < kMost) mine.at[mine.count++] = LocalAddress(listener);
  }
  std::vector<std::vector<SocketAddress>> addresses;
  for (const auto& theirs : GatherValues(all_gather, mine)) {
    addresses.emplace_back(theirs.at.begin(), theirs.at.begin() + std::min<std::size_t>(theirs.count, kMost));
  }
  return addresses;
}

}  // namespace tutti
