// The addresses at which ranks can be called.
//
// Thread-safety: a collective function without state.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "base/all_gather.h"
#include "net/interfaces.h"

namespace tutti::tcp {

// Collective: the addresses of each rank's port, by rank; beyond two of each family they are left out.
inline std::vector<std::vector<net::SocketAddress>> GatherAddresses(const AllGather& all_gather,
                                                                    const std::vector<net::SocketAddress>& own) {
  constexpr std::size_t kMost = 2 * net::kMaxAddressesPerFamily;
  struct Listening {
    std::uint32_t count = 0;
    std::array<net::SocketAddress, kMost> at = {};
  };
  Listening mine;
  for (const auto& address : own) {
    if (mine.count < kMost) mine.at[mine.count++] = address;
  }
  std::vector<std::vector<net::SocketAddress>> addresses;
  for (const auto& theirs : GatherValues(all_gather, mine)) {
    addresses.emplace_back(theirs.at.begin(), theirs.at.begin() + std::min<std::size_t>(theirs.count, kMost));
  }
  return addresses;
}

}  // namespace tutti::tcp
