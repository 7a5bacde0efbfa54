// Which ranks are near each other.
//
// Thread-safety: a value type and a collective function without state.
#pragma once

#include <cstddef>
#include <vector>

#include "base/all_gather.h"

namespace tutti::shm {

struct Hosts {
  // By rank, numbered in the order of their lowest ranks. Ranks of one host can share memory: they see the same kernel
  // and the same network namespace (abstract sockets live in it).
  std::vector<int> host_of;
  // Likewise; ranks of one kernel share its processors, in whatever namespaces they are.
  std::vector<int> kernel_of;

  int count() const;
  // Ascending.
  std::vector<int> RanksWith(int rank) const;
  // By rank: its index among the ranks of its host, from 0.
  std::vector<int> Places() const;
  // Of the host with most.
  int MostRanks() const;
  bool SameHost(int a, int b) const {
    return host_of[static_cast<std::size_t>(a)] == host_of[static_cast<std::size_t>(b)];
  }
};

// Collective. `virtual_hosts` > 1: treats each host's ranks as those of that many hosts, by runs of consecutive ranks
// of the whole communicator.
Hosts FindHosts(const AllGather& all_gather, int virtual_hosts);

}  // namespace tutti::shm
