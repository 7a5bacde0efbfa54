#include "interop/torch/csrc/group_identity.h"

namespace tutti::pytorch {

std::string DescribeRank(const GroupIdentity& identity, int rank) {
  auto text = "rank " + std::to_string(rank);
  const auto at = static_cast<std::size_t>(rank);
  if (at < identity.global_ranks.size() && identity.global_ranks[at] != rank) {
    text += " (global rank " + std::to_string(identity.global_ranks[at]) + ")";
  }
  return text;
}

}  // namespace tutti::pytorch
