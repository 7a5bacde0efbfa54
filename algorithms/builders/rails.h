// Nodes and the rails between them. Rail j connects one rank of every node: the j-th one, or, on a node with fewer
// ranks than the largest, rank j modulo their number, which then serves several rails.
//
//     node 0:  0   1   2   3   4       five rails; the second node's
//              |   |   |   |   |       first rank serves rails 0 and 3
//     node 1:  5   6   7   5   6
//
// Thread-safety: immutable.
#pragma once

#include <vector>

#include "algorithms/builders/build.h"

namespace tutti::builders {

class Rails {
 public:
  // As `question.where` says; without it all ranks are on one node. REQUIRES: question outlives this.
  explicit Rails(const ScheduleRequest& request);

  int nodes() const { return static_cast<int>(ranks_on_.size()); }
  // The number of ranks of the largest node.
  int rails() const { return rails_; }
  // The number of ranks of the smallest node: of this many consecutive rails, no rank serves two.
  int width() const { return width_; }

  const std::vector<int>& RanksOn(int node) const { return ranks_on_[node]; }
  int Server(int node, int rail) const { return ranks_on_[node][rail % ranks_on_[node].size()]; }
  int NodeOf(int rank) const { return node_of_[rank]; }
  // A rank's place among the ranks of its node, which is the first rail that it serves.
  int IndexOf(int rank) const;

 private:
  RankLayout alone_;  // unused if the request has a rank layout
  const std::vector<std::vector<int>>& ranks_on_;
  const std::vector<int>& node_of_;
  int rails_ = 0;
  int width_ = 0;
};

}  // namespace tutti::builders
