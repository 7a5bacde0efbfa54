// Who a process group is, and which of its ranks this process is.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "interop/torch/csrc/process.h"

namespace tutti::pytorch {

struct GroupIdentity {
  std::string name;
  int rank = 0;
  int ranks = 1;
  std::chrono::milliseconds timeout{0};
  std::vector<std::int64_t> global_ranks;  // of this group's ranks, in the whole job; empty: unknown
  std::vector<Process> processes;          // of this group's ranks; empty: not known before they gather
};

// "rank 1", or "rank 1 (global rank 3)" where its rank in the whole job differs.
std::string DescribeRank(const GroupIdentity& identity, int rank);

}  // namespace tutti::pytorch
